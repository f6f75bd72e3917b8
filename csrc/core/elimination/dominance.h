/*!
 * \file dominance.h
 * \brief Removal of values that cannot be needed, because another value of the same variable is
 * never worse.
 *
 * Value b of a variable dominates value a if b costs no more than a for any values of the
 * neighbours:
 *     unary(a) - unary(b) + sum over neighbours n of min over y of [pair(a, y) - pair(b, y)] >= 0
 *
 * This is called "dead end elimination" in the literature on soft arc consistency. The minimum is
 * taken for each neighbour separately, so the test misses some dominated values. It never removes
 * the optimum: replacing a by b makes no plan worse, and no two plans have the same weight.
 */
#pragma once

#include <cstddef>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief Return the most entries that FindDominated needs: one for each pair of values and each
 * table of a variable, and a transposed copy of each table. */
double CountDominanceEntries(const PairwiseProblem& problem);

/*! \brief Result of one pass over all variables. */
struct Dominance {
  KeptValues kept;
  std::vector<std::vector<int>>
      stand_ins;  // for each value: itself if it is kept, else a kept value that is never worse
  bool is_reduced = false;
  size_t num_entries = 0;  // entries of 8 bytes, besides the problem
  double additions = 0;    // additions done
};

Dominance FindDominated(const PairwiseProblem& problem);

/*!
 * \brief Minimise a problem exactly. While this needs a table of more than `large_table` entries,
 * dominated values are removed.
 * \throws std::runtime_error if a table would still exceed kMaxTableEntries
 */
EliminationResult EliminateInStages(const PairwiseProblem& problem,
                                    double large_table = size_t{1} << 20);

}  // namespace tofu
