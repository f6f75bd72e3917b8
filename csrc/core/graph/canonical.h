/*!
 * \file canonical.h
 * \brief Structural labels of operators and tensors, which do not depend on ids, names and the
 * order of nodes.
 *
 * Hashes of these labels decide between plans of equal cost, so that a graph always has the same
 * plan. A label combines a hash over ancestors with a hash over consumers. Both passes run twice,
 * so that siblings of ancestors count. Except for rare collisions, nodes with equal labels can be
 * exchanged without changing the graph.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace tofu {

/*! \brief Combine two 64-bit values into a well-mixed hash that depends on their order. */
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
