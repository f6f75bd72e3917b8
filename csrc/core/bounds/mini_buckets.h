/*!
 * \file mini_buckets.h
 * \brief A lower bound on a pairwise problem by elimination with tables of limited size (Dechter
 * and Rish).
 *
 * If the table of a variable's bucket would be too large, the bucket is split into mini-buckets,
 * and the variable is minimised out of each by itself. The sum of the minima is at most the minimum
 * of the sum. Applied to costs that message passing has spread evenly, the result is the bound of
 * message passing plus the least cost of cycles, which message passing cannot see. Before a bucket
 * is split, its parts are made to agree on the cost of each value (matching of minimal marginals).
 *
 * The mini-buckets form a tree. A backward pass from the roots tells each of them the least cost of
 * all the others, and so the least cost of a plan with each value.
 *
 * Repeated work is done once. Variables whose buckets hold the same tables share one bucket.
 * Buckets with different but equal tables share their results.
 */
#ifndef TOFU_CORE_BOUNDS_MINI_BUCKETS_H_
#define TOFU_CORE_BOUNDS_MINI_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

struct MiniBucketBound {
  int64_t bytes = 0;  // every assignment costs at least this
  std::vector<std::vector<int64_t>>
      excess;  // by variable and value: an assignment with the value costs at least `bytes` + this
  size_t largest_table = 0;  // entries
};

/*! \brief The most entries of all tables together, of 4 bytes each. The backward pass holds them
 * twice. */
constexpr size_t kMaxMiniBucketEntries = size_t{1} << 28;

/*! \brief Receives the additions since the last call and the entries of all tables so far. */
using MiniBucketPause = std::function<void(double, size_t)>;

/*!
 * \brief Bound a problem without negative costs.
 *
 * Costs above `most` count as `most`. No table has more than `max_entries` entries, unless one of
 * the problem has. `pause` is called after each variable; an exception from it ends the work.
 * \\throws std::length_error if all tables together exceed kMaxMiniBucketEntries
 */
MiniBucketBound BoundByMiniBuckets(const PairwiseProblem& problem, int64_t most, size_t max_entries,
                                   const MiniBucketPause& pause);

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_MINI_BUCKETS_H_
