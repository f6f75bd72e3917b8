/*!
 * \file shared_search.h
 * \brief The exact search where several reads share a region, and the cost is no sum over pairs.
 *
 * The price of what is shared is a star (star_passing.h) for each tensor and phase. Bounds over
 * pairs and stars rule values out as they stand; with few values left, stars become variables
 * (star_variables.h), and what is left is a pairwise problem for dominance, elimination and bounds.
 * Where it is too large for that, the same with the cheapest values alone finds better plans, which
 * rule out more.
 */
#ifndef TOFU_CORE_SEARCH_SHARED_SEARCH_H_
#define TOFU_CORE_SEARCH_SHARED_SEARCH_H_

#include "core/search/exact_bound.h"
#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

/*! \brief Raises the bound and improves the plan of `state`, whose values are those of
 * `problem.pairwise`, until it is proved, nothing moves any more or the time is over. */
BoundStatistics SearchShared(const ExactProblem& problem, ExactState* state);

/*! \brief What values cost, stars included. */
Weight EvaluateShared(const ExactProblem& problem, const std::vector<int>& values);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_SHARED_SEARCH_H_
