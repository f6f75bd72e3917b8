/*!
 * \file mini_buckets.h
 * \brief A lower bound of a pairwise problem by elimination in tables of limited size.
 *
 * Elimination (eliminate.h) that may not make a large table splits the bucket of a variable into
 * mini-buckets and minimises the variable out of each by itself: the sum of the minima is no more
 * than the minimum of the sum (Dechter and Rish). On costs that message passing has spread evenly,
 * the result is the bound of message passing plus what cycles of variables cost at least, which
 * message passing cannot see. Before a bucket is split, its parts agree on what each value of the
 * variable costs (matching of minimal marginals).
 *
 * The parts make a tree, each below the one that its minimum went to. Going back from the roots,
 * every part learns what all the others cost at least, and so what each value costs at least.
 *
 * What repeats is done once. Variables whose buckets hold the same tables share one, whose parts
 * learn the least of what the rest costs around any of them, which bounds all. Buckets of other
 * tables that are equal, entry by entry, share what is computed.
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
  int64_t bytes = 0;                         // no assignment costs less
  std::vector<std::vector<int64_t>> excess;  // by variable and value: with it, none costs less than
                                             // `bytes` + this
  size_t largest_table = 0;                  // entries
};

/*! \brief Entries of all tables together, of 4 bytes; on the way back they are held twice. */
constexpr size_t kMaxMiniBucketEntries = size_t{1} << 28;

/*! \brief Told the additions made since the last call, and the entries of all tables so far. */
using MiniBucketPause = std::function<void(double, size_t)>;

/*!
 * \brief Bounds a problem whose bytes are all 0 or more.
 *
 * Costs above `most` count as `most`: what is above the cost of a known plan need not be told
 * apart. No table has more than `max_entries` entries unless one of the problem has. `pause` is
 * called after each variable; an exception from it ends the work.
 * \throws std::length_error where all tables together pass kMaxMiniBucketEntries.
 */
MiniBucketBound BoundByMiniBuckets(const PairwiseProblem& problem, int64_t most, size_t max_entries,
                                   const MiniBucketPause& pause);

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_MINI_BUCKETS_H_
