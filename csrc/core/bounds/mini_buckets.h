/*!
 * \file mini_buckets.h
 * \brief A lower bound on a pairwise problem by elimination with tables of limited size (Dechter
 * and Rish).
 *
 * Elimination (eliminate.h) sums the tables that hold a variable, its *bucket*, and minimises over
 * the variable. If the result would be too large, the bucket is split into mini-buckets, which are
 * minimised separately. The sum of the minima is at most the minimum of the sum, so the result is a
 * lower bound. Before a bucket is split, costs are moved between its parts until all parts have
 * equal costs for each value (matching of minimal marginals).
 *
 * The method starts from costs that message passing (message_passing.h) has spread evenly. It
 * raises the bound by the least cost of cycles, which message passing cannot find.
 *
 * The mini-buckets form a tree. In a backward pass from the roots, each mini-bucket receives the
 * least cost of all others. This gives the least cost of a plan with each value.
 *
 * Repeated work is done once. Variables with the same tables share one bucket. Buckets with other
 * tables of equal content share results.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

struct MiniBucketBound {
  int64_t bytes = 0;  // the bound: every assignment costs at least this
  std::vector<std::vector<int64_t>>
      excess;  // by variable and value: an assignment with the value costs at least `bytes` + this
  size_t largest_table = 0;  // entries of the largest table
};

/*! \brief Limit of the entries of all tables together. An entry has 4 bytes, and the backward pass
 * holds all tables twice. */
constexpr size_t kMaxMiniBucketEntries = size_t{1} << 28;

/*! \brief Callback that receives the number of additions since the last call, and of the entries of
 * all tables so far. */
using MiniBucketPause = std::function<void(double, size_t)>;

/*!
 * \brief Bound a problem without negative costs.
 *
 * Costs above `most` count as `most`. No table has more than `max_entries` entries, unless a table
 * of the problem has. `pause` is called after each variable. An exception from it ends the work.
 * \throws std::length_error if all tables together exceed kMaxMiniBucketEntries
 */
MiniBucketBound BoundByMiniBuckets(const PairwiseProblem& problem, int64_t most, size_t max_entries,
                                   const MiniBucketPause& pause);

}  // namespace tofu
