/*!
 * \file shared_search.h
 * \brief The exact search for engines in which reads share regions.
 *
 * The cost is then not a sum over pairs of variables: the cost of shared regions is a star
 * (message_passing.h) for each tensor and phase. Bounds over pairs and stars remove values. When
 * few values are left, stars become variables (star_variables.h), and dominance, elimination and
 * bounds solve the resulting pairwise problem. If it is too large, searches over the cheapest
 * values find better plans, so that bounds remove more values.
 */
#pragma once

#include "core/search/exact_bound.h"
#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

/*! \brief Raise the bound and improve the plan until it is proved, nothing changes, or the time is
 * over. `state` has values of the variables in `problem.pairwise`. */
void SearchShared(const ExactProblem& problem, ExactState* state);

/*! \brief Evaluate an assignment, including stars. */
Weight EvaluateShared(const ExactProblem& problem, const std::vector<int>& values);

}  // namespace tofu
