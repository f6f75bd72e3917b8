/*!
 * \file liveness.h
 * \brief From when to when the entries of a graph are in use.
 */
#ifndef TOFU_NNVM_GRAPH_LIVENESS_H_
#define TOFU_NNVM_GRAPH_LIVENESS_H_

#include <cstdint>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief The inputs of which a kernel reads the shape alone. */
std::vector<uint32_t> ListIgnoredInputs(const nnvm::NodeAttrs& attrs);

/*!
 * \brief By entry: the last node that reads it for more than its shape, or its own where nobody
 * does. The number of nodes for what outlives a step: variables and outputs of the graph.
 */
std::vector<uint32_t> FindLastReaders(const nnvm::IndexedGraph& index);

/*! \brief Bytes of an entry of a graph whose shapes and types are inferred. */
int64_t EntryBytes(const nnvm::Graph& graph, uint32_t entry, const nnvm::Node& node);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_GRAPH_LIVENESS_H_
