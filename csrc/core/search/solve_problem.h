/*!
 * \file solve_problem.h
 * \brief The best values of a tabulated problem, with a proof or a bound.
 */
#ifndef TOFU_CORE_SEARCH_SOLVE_PROBLEM_H_
#define TOFU_CORE_SEARCH_SOLVE_PROBLEM_H_

#include <vector>

#include "core/search/exact_bound.h"
#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

/*!
 * \brief Eliminate a problem or, if it is too large, improve its plan and its bound in `state`.
 *
 * `start` is a known plan, or empty. The pairs of `problem` are moved if it has no stars.
 */
BoundStatistics SolveProblem(const std::vector<int>& start, ExactProblem* problem,
                             ExactState* state);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_SOLVE_PROBLEM_H_
