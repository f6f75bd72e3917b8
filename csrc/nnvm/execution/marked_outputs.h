/*!
 * \file marked_outputs.h
 * \brief What an execution graph says of outputs of its nodes, for those who plan its memory.
 */
#ifndef TOFU_NNVM_EXECUTION_MARKED_OUTPUTS_H_
#define TOFU_NNVM_EXECUTION_MARKED_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

enum class OutputMark {
  /*! \brief In transit between workers: fetched regions, padded copies, partial results. All others
   * of a partitioned graph are shards; other graphs have none in transit. */
  kTransit,
  /*! \brief Its kernel is asked for it, whether or not somebody reads it. */
  kAsked,
  /*! \brief Its memory is its own, from one run of the graph to the next. */
  kKept,
};

/*! \brief Mark an output of a node. */
void MarkOutput(OutputMark mark, uint32_t output, nnvm::NodeAttrs* attrs);

/*! \brief The outputs of a node that have a mark. */
std::vector<uint32_t> ListMarkedOutputs(OutputMark mark, const nnvm::NodeAttrs& attrs);

/*! \brief The entries of a graph that have a mark. */
std::vector<uint32_t> ListMarkedEntries(OutputMark mark, const nnvm::IndexedGraph& index);

/*! \brief An execution graph, and which of its outputs keep their memory, by position. */
struct KeepingGraph {
  SymbolHandle symbol = 0;
  std::vector<uint32_t> kept;
};

/*!
 * \brief A copy of an execution graph whose outputs [begin, end) keep their memory: no other entry
 * is put there, and they stay what they are until their own nodes run again.
 *
 * Not kept are variables, what the outputs before them need, and an entry that is several outputs.
 */
KeepingGraph KeepOutputs(SymbolHandle graph, uint32_t begin, uint32_t end);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_MARKED_OUTPUTS_H_
