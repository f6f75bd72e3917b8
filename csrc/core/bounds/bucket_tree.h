/*!
 * \file bucket_tree.h
 * \brief Mini-buckets (mini_buckets.h), and what they cost at least, from the leaves to the roots.
 */
#ifndef TOFU_CORE_BOUNDS_BUCKET_TREE_H_
#define TOFU_CORE_BOUNDS_BUCKET_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/bounds/min_sum.h"
#include "core/bounds/mini_buckets.h"
#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief A table in a bucket. */
struct Factor {
  CostTable table;
  int costs = -1;        // a number, equal for equal entries
  int mini_bucket = -1;  // whose minimum it is; -1 for one of the problem
};

/*! \brief Tables of one variable that are minimised together. */
struct MiniBucket {
  std::vector<Factor> factors;
  std::vector<int> scope;  // the other variables, ascending
  CostTable minimum;       // more than `least`
  int costs = -1;          // of the minimum
  Cost least = 0;          // what its tables cost at least
};

/*! \brief The bucket of a variable, and of all variables whose buckets hold the same tables. */
struct Bucket {
  std::vector<int> around;     // its variables, ascending; the tables are over these
  std::vector<int> variables;  // that are minimised out
  int first = 0;               // of its mini-buckets, which follow each other
  int end = 0;
  int alike = 0;  // the first bucket that holds equal tables in equal places, or this one
};

struct BucketTree {
  int64_t unit = 1;  // bytes that a cost of 1 stands for
  std::vector<size_t> domain_sizes;
  std::vector<Bucket> buckets;  // each before those that its minima go to
  std::vector<MiniBucket> mini_buckets;
  int64_t constant = 0;        // units: no assignment costs less
  size_t num_entries = 0;      // of all distinct tables
  size_t largest_minimum = 0;  // entries
};

std::vector<const CostTable*> Tables(const MiniBucket& mini_bucket);

/*! \brief Bounds a problem of bytes in whole units, rounded down; otherwise as
 * BoundByMiniBuckets. */
BucketTree GrowBucketTree(const PairwiseProblem& problem, int64_t unit, size_t max_entries,
                          const MiniBucketPause& pause);

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_BUCKET_TREE_H_
