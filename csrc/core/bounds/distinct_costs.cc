/*!
 * \file distinct_costs.cc
 * \brief Lists that agree in some entries are compared in all.
 */
#include "core/bounds/distinct_costs.h"

#include <algorithm>
#include <cstdint>

namespace tofu {

namespace {

/*! \brief Of the number of entries, and of some of them. */
size_t HashSome(const Costs& costs) {
  constexpr size_t kSome = 256;
  uint64_t hash = costs.size();
  const size_t step = costs.size() / kSome + 1;
  for (size_t i = 0; i < costs.size(); i += step) {
    hash = (hash ^ static_cast<uint32_t>(costs[i])) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

int DistinctCosts::Add(SharedCosts* costs) {
  const size_t hash = HashSome(**costs);
  const auto [begin, end] = known_.equal_range(hash);
  const auto found = std::find_if(
      begin, end, [&](const auto& candidate) { return *candidate.second.costs == **costs; });
  if (found != end) {
    *costs = found->second.costs;
    return found->second.number;
  }
  num_entries_ += (*costs)->size();
  const int number = static_cast<int>(known_.size());
  known_.emplace(hash, Known{*costs, number});
  return number;
}

}  // namespace tofu
