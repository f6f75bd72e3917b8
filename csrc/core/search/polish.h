/*!
 * \file polish.h
 * \brief Improvement of a plan: re-optimises two steps at a time, for all variables.
 */
#ifndef TOFU_CORE_SEARCH_POLISH_H_
#define TOFU_CORE_SEARCH_POLISH_H_

#include <functional>
#include <vector>

#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

/*! \brief List the values, as positions in `originals`, that agree with `values` at all steps but
 * two. Variables without sequences keep all values. */
KeptValues FreeSteps(const ExactProblem& problem, const KeptValues& originals,
                     const std::vector<int>& values, int first, int second);

/*! \brief Call `search` with pairs of steps until no pair improves the plan of `state` or
 * is_over(). */
void ForEachTwoSteps(const ExactProblem& problem, const ExactState& state,
                     const std::function<bool()>& is_over,
                     const std::function<void(int first, int second)>& search);

/*! \brief Improve the best plan until no pair of steps helps or the time is over. */
void Polish(const ExactProblem& problem, const Part& part, ExactState* state);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_POLISH_H_
