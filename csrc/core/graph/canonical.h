/*!
 * \file canonical.h
 * \brief Structural labels of operators and tensors: the same whatever the ids, the names and the
 * order of the nodes.
 *
 * Plans of equal cost are told apart by hashes of these labels, so that one graph has one plan. A
 * label mixes a hash over the ancestors (forward) with one over the consumers (backward); both
 * passes run twice, the second time over the first labels, so that siblings of ancestors count as
 * well. Nodes that still agree can be exchanged without changing the graph, short of rare
 * collisions.
 */
#ifndef TOFU_CORE_GRAPH_CANONICAL_H_
#define TOFU_CORE_GRAPH_CANONICAL_H_

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace tofu {

/*! \brief One round of a well-mixing, order-sensitive 64-bit hash. */
inline uint64_t HashCombine(uint64_t seed, uint64_t value) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct CanonicalLabels {
  std::vector<uint64_t> operators;
  std::vector<uint64_t> tensors;
};

CanonicalLabels ComputeLabels(const Graph& graph);

}  // namespace tofu

#endif  // TOFU_CORE_GRAPH_CANONICAL_H_
