/*!
 * \file bucket_tree.h
 * \brief The tree of mini-buckets, from which BoundByMiniBuckets computes its bound.
 */
#pragma once

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
  int costs = -1;        // number of the entries; equal entries have equal numbers
  int mini_bucket = -1;  // the mini-bucket with this minimum; -1 for a table of the problem
};

/*! \brief Tables of one variable that are minimised together. */
struct MiniBucket {
  std::vector<Factor> factors;
  std::vector<int> scope;  // the other variables, ascending
  CostTable minimum;       // the minimum over the variable, minus `least`
  int costs = -1;          // number of the entries of `minimum`
  Cost least = 0;          // the least sum of its tables
};

/*! \brief The tables of one variable, or of several variables with the same tables. */
struct Bucket {
  std::vector<int> around;     // variables of its tables, ascending
  std::vector<int> variables;  // eliminated variables
  int first = 0;               // its mini-buckets are [first, end)
  int end = 0;
  int alike = 0;  // the first bucket with equal tables in equal positions, possibly this one
};

struct BucketTree {
  int64_t unit = 1;  // bytes per unit of cost
  std::vector<size_t> domain_sizes;
  std::vector<Bucket> buckets;  // each before the buckets that receive its minima
  std::vector<MiniBucket> mini_buckets;
  int64_t constant = 0;        // the bound, in units
  size_t num_entries = 0;      // entries of all distinct tables
  size_t largest_minimum = 0;  // entries of the largest minimum
};

std::vector<const CostTable*> Tables(const MiniBucket& mini_bucket);

/*! \brief Build the tree for costs in whole units, rounded down. BoundByMiniBuckets explains the
 * other arguments. */
BucketTree GrowBucketTree(const PairwiseProblem& problem, int64_t unit, size_t max_entries,
                          const MiniBucketPause& pause);

}  // namespace tofu
