/*!
 * \file dominance.h
 * \brief Removal of values that another value of the same variable dominates.
 *
 * Value b of v dominates value a if b costs no more whatever the neighbours take:
 *     unary(a) - unary(b) + sum over neighbours n of min over y of [pair(a, y) - pair(b, y)] >= 0
 * ("dead end elimination" in the literature on soft arc consistency). Each neighbour is minimised
 * by itself, so the test misses some values but never removes the optimum: replacing a by b never
 * makes a plan worse, and no two plans weigh the same.
 */
#ifndef TOFU_CORE_ELIMINATION_DOMINANCE_H_
#define TOFU_CORE_ELIMINATION_DOMINANCE_H_

#include <cstddef>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief The entries that FindDominated needs: one for each pair of values and each table of a
 * variable. */
double CountDominanceEntries(const PairwiseProblem& problem);

/*! \brief Result of one pass over all variables. */
struct Dominance {
  KeptValues kept;
  std::vector<std::vector<int>>
      stand_ins;  // by value: itself if it is kept, else a kept value that is never worse
  bool is_reduced = false;
  size_t num_entries = 0;  // of 8 bytes, beside the problem
  double additions = 0;    // performed
};

Dominance FindDominated(const PairwiseProblem& problem);

/*!
 * \brief Eliminate (eliminate.h) after removing dominated values, which makes the tables smaller.
 * \\throws std::runtime_error if a table would still exceed kMaxTableEntries
 */
EliminationResult EliminateUndominated(PairwiseProblem problem);

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_DOMINANCE_H_
