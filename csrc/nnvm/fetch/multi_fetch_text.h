/*!
 * \file multi_fetch_text.h
 * \brief The attributes of a fetch as MXNet saves them: text in the node's dictionary.
 */
#ifndef TOFU_NNVM_FETCH_MULTI_FETCH_TEXT_H_
#define TOFU_NNVM_FETCH_MULTI_FETCH_TEXT_H_

#include "nnvm/fetch/multi_fetch.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Fill `attrs->parsed` from the text in `attrs->dict`; the operator's attribute parser.
 * \throw dmlc::Error where a number cannot be read or a piece leaves the region
 */
void ParseMultiFetch(nnvm::NodeAttrs* attrs);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_FETCH_MULTI_FETCH_TEXT_H_
