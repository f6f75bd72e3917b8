/*!
 * \file polish.h
 * \brief Better plans from a good one: two steps of the recursion at a time, all variables at once.
 */
#ifndef TOFU_CORE_SEARCH_POLISH_H_
#define TOFU_CORE_SEARCH_POLISH_H_

#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

/*! \brief Improves the best plan, until no two steps find anything or the time is over. */
void Polish(const ExactProblem& problem, const Part& part, ExactState* state);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_POLISH_H_
