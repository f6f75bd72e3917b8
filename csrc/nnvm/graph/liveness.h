/*!
 * \file liveness.h
 * \brief Lifetimes of the entries of a graph.
 */
#ifndef TOFU_NNVM_GRAPH_LIVENESS_H_
#define TOFU_NNVM_GRAPH_LIVENESS_H_

#include <cstdint>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief List inputs of which a kernel reads only the shape. */
std::vector<uint32_t> ListIgnoredInputs(const nnvm::NodeAttrs& attrs);

/*! \brief Return, for each entry, the last node that reads its elements. An entry without readers
 * has the node that computes it; variables and outputs of the graph have the number of nodes. */
std::vector<uint32_t> FindLastReaders(const nnvm::IndexedGraph& index);

/*! \brief Return the bytes of an entry, after inference of shapes and types. */
int64_t EntryBytes(const nnvm::Graph& graph, uint32_t entry, const nnvm::Node& node);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_GRAPH_LIVENESS_H_
