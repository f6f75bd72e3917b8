/*!
 * \file contract.h
 * \brief A smaller problem with the same least bytes: variables with at most two neighbours are
 * minimised out.
 *
 * A variable v between u and w leaves a table over u and w,
 *     table(u, w) = min over x of [unary_v(x) + pair(u, x) + pair(x, w)],
 * which is added to the pair of u and w. Dominance and message passing see further on the result: a
 * chain of operators between two layouts is one table. Equal tables are computed once.
 */
#ifndef TOFU_CORE_ELIMINATION_CONTRACT_H_
#define TOFU_CORE_ELIMINATION_CONTRACT_H_

#include <cstddef>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief A contracted problem. Ties are dropped. */
struct Contraction {
  PairwiseProblem problem;     // over the remaining variables, renumbered
  int64_t constant = 0;        // bytes that every assignment costs in addition
  std::vector<int> variables;  // by variable of `problem`: its number in the whole problem
};

/*! \brief Contract while no table takes more than `max_operations`. */
Contraction Contract(const PairwiseProblem& problem, double max_operations);

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_CONTRACT_H_
