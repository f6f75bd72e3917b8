/*!
 * \file multi_fetch.h
 * \brief The operator _tofu_multi_fetch: one region of a tensor, assembled out of shards of several
 * workers.
 *
 * The only operator of a partitioned graph that reads another device's memory (paper section 6,
 * "MultiFetch"). Its inputs are entries of any device; its output lies on its own.
 */
#ifndef TOFU_NNVM_FETCH_MULTI_FETCH_H_
#define TOFU_NNVM_FETCH_MULTI_FETCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/program/piece.h"
#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

extern const char kMultiFetchName[];

class GpuFetch;

/*! \brief The parsed attributes of a fetch. Cells of the output that lie in no piece hold `fill`.
 */
struct MultiFetchParam {
  int num_args = 0;
  mxnet::TShape shape;
  int dtype = -1;  // MXNet's type code; -1: that of the inputs
  double fill = 0.0;
  Reducer reducer = Reducer::kSum;  // of the sources of a piece
  std::vector<Piece> pieces;
  // Whose region this is; for reports and checks, not for the kernel.
  std::string tensor;
  int worker = 0;
  int phase = 0;
  // What is prepared for its GPU, if it runs on one; copies of a node's attributes share it.
  std::shared_ptr<GpuFetch> gpu;
};

/*!
 * \brief A node's attributes for a fetch, parsed and as text.
 *
 * The text is what MXNet saves and loads: "pieces" is a list with ";" of
 * `begin:extent:input@begin+input@begin...`, coordinates with ",".
 */
void SetMultiFetchAttributes(MultiFetchParam param, nnvm::NodeAttrs* attrs);

/*!
 * \brief Parses the text of a node's attributes.
 * \throw dmlc::Error if a number cannot be read or a piece leaves the region
 */
void ParseMultiFetch(nnvm::NodeAttrs* attrs);

/*! \brief The parsed attributes of a node of this operator. */
const MultiFetchParam& MultiFetchParamOf(const nnvm::NodeAttrs& attrs);

/*! \brief The operator; nodes that have it are fetches. */
const nnvm::Op* MultiFetchOp();

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_FETCH_MULTI_FETCH_H_
