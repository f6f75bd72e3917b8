/*!
 * \file contract.h
 * \brief A smaller problem of the same least bytes: variables of at most two neighbours minimised
 * out.
 *
 * A variable v between u and w leaves a table over u and w,
 *     table(u, w) = min over x of [unary_v(x) + pair(u, x) + pair(x, w)],
 * which is added to the one that is there. On what is left, dominance and message passing see
 * further: what a run of operators can make of two layouts is one table then. Equal tables are made
 * once.
 */
#ifndef TOFU_CORE_ELIMINATION_CONTRACT_H_
#define TOFU_CORE_ELIMINATION_CONTRACT_H_

#include <cstddef>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief Bytes alone: ties are dropped. */
struct Contraction {
  PairwiseProblem problem;     // over the variables that are left, renumbered
  int64_t constant = 0;        // bytes that no choice changes
  std::vector<int> variables;  // by variable of `problem`: the one of the whole problem
};

/*! \brief Contracts as long as no table costs more than `max_operations` to make. */
Contraction Contract(const PairwiseProblem& problem, double max_operations);

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_CONTRACT_H_
