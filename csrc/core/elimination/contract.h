/*!
 * \file contract.h
 * \brief Contraction of a pairwise problem: eliminate all variables with at most two neighbours.
 *
 * The smaller problem has the same least bytes. A variable v between u and w is replaced by a table
 * over u and w,
 *     table(u, w) = min over x of [unary_v(x) + pair(u, x) + pair(x, w)],
 * which is added to the pair of u and w. So a chain of operators between two layouts becomes one
 * table. This makes dominance and message passing stronger. Equal tables are computed once.
 */
#pragma once

#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief A contracted problem. Ties are dropped. */
struct Contraction {
  PairwiseProblem problem;     // over the remaining variables, renumbered
  int64_t constant = 0;        // bytes that every assignment costs in addition
  std::vector<int> variables;  // the number of each variable in the original problem
};

/*! \brief Contract a problem, as long as no table takes more than `max_operations`. */
Contraction Contract(const PairwiseProblem& problem, double max_operations);

}  // namespace tofu
