/*!
 * \file polish.h
 * \brief Better plans from a good one: two steps of the recursion at a time, all variables at once.
 */
#ifndef TOFU_CORE_SEARCH_POLISH_H_
#define TOFU_CORE_SEARCH_POLISH_H_

#include <functional>
#include <vector>

#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

/*! \brief The values, by their positions among `originals`, that take what the best plan's `values`
 * take at all steps but two, and all values that are no choices. */
KeptValues FreeSteps(const ExactProblem& problem, const KeptValues& originals,
                     const std::vector<int>& values, int first, int second);

/*! \brief Calls `search` with two steps after the other, until no pair of steps improves the plan
 * of `state` or `is_over`. */
void ForEachTwoSteps(const ExactProblem& problem, const ExactState& state,
                     const std::function<bool()>& is_over,
                     const std::function<void(int first, int second)>& search);

/*! \brief Improves the best plan, until no two steps find anything or the time is over. */
void Polish(const ExactProblem& problem, const Part& part, ExactState* state);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_POLISH_H_
