/*!
 * \file dominance.h
 * \brief Values that some other value of the same variable is never worse than can go.
 *
 * Value b of v dominates value a if, whatever the neighbours take, b costs no more:
 *     unary(a) - unary(b) + sum over neighbours n of min over y of [pair(a, y) - pair(b, y)] >= 0
 * (the soft arc consistency literature's "dead end elimination"). The minima are taken for each
 * neighbour by itself, so the test may miss values but never drops the optimum: replacing a by b in
 * any plan makes it no worse, and, since no two plans weigh the same, better.
 */
#ifndef TOFU_CORE_ELIMINATION_DOMINANCE_H_
#define TOFU_CORE_ELIMINATION_DOMINANCE_H_

#include <cstddef>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief The entries that FindDominated holds at most: one for each two values and each table of a
 * variable. */
double CountDominanceEntries(const PairwiseProblem& problem);

/*! \brief One pass over all variables. */
struct Dominance {
  KeptValues kept;
  std::vector<std::vector<int>> stand_ins;  // by value: itself where it stays, else a kept one that
                                            // is never worse
  bool is_reduced = false;
  size_t num_entries = 0;  // of 8 bytes, that were held beside the problem
  double additions = 0;    // that were made
};

Dominance FindDominated(const PairwiseProblem& problem);

/*!
 * \brief The same as Eliminate (eliminate.h), whose tables hold less: dominated values go first.
 * \throws std::runtime_error where a table would pass kMaxTableEntries all the same.
 */
EliminationResult EliminateUndominated(PairwiseProblem problem);

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_DOMINANCE_H_
