/*!
 * \file layout_flow.h
 * \brief Which arrays of an execution graph oneDNN may lay out as it likes.
 */
#ifndef TOFU_NNVM_EXECUTION_LAYOUT_FLOW_H_
#define TOFU_NNVM_EXECUTION_LAYOUT_FLOW_H_

#include <vector>

#include "core/program/program.h"
#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Lets convolutions hand out their first outputs in blocks of channels where nobody else
 * reads them than operators that take blocks.
 *
 * Such operators, but for those that choose their layouts, pass the layout of what they read on:
 * all of their data may be in blocks, or none. So data that comes from a fetch or a variable, or
 * is read by a fetch, by an operator that knows no blocks or from outside, keeps all that it flows
 * along with in MXNet's plain layout. Nobody makes hidden copies.
 * \param nodes the program's, by position
 */
void LetLayoutsFlow(const Program& program, const std::vector<nnvm::ObjectPtr>& nodes);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_LAYOUT_FLOW_H_
