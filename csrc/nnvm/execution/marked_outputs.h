/*!
 * \file marked_outputs.h
 * \brief Marks on outputs of nodes, for memory planning.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

enum class OutputMark {
  /*! \brief In transit between workers: fetched regions, padded copies and partial results. All
     other outputs of a partitioned graph are shards. */
  kTransit,
  /*! \brief Requested from its kernel even if nobody reads it. */
  kRequested,
  /*! \brief Keeps its memory from one run of the graph to the next. */
  kKept,
};

void MarkOutput(OutputMark mark, uint32_t output, nnvm::NodeAttrs* attrs);

/*! \brief List the outputs of a node that have a mark. */
std::vector<uint32_t> ListMarkedOutputs(OutputMark mark, const nnvm::NodeAttrs& attrs);

/*! \brief List the entries (outputs of nodes) of a graph that have a mark. */
std::vector<uint32_t> ListMarkedEntries(OutputMark mark, const nnvm::IndexedGraph& index);

/*! \brief An execution graph, and the positions of its outputs that keep their memory. */
struct KeepingGraph {
  SymbolHandle symbol = 0;
  std::vector<uint32_t> kept;
};

/*!
 * \brief Copy an execution graph so that the outputs [begin, end) keep their memory. Their memory
 * is not shared, so an output stays valid until the node that computes it runs again.
 *
 * Three kinds of outputs are not kept: variables, entries that earlier outputs need, and entries
 * that are several outputs.
 */
KeepingGraph KeepOutputs(SymbolHandle graph, uint32_t begin, uint32_t end);

}  // namespace tofu::nnvm_layer
