/*!
 * \file solve_problem.h
 * \brief The best values of a tabulated problem, with a proof or a bound.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/cost/cost.h"
#include "core/search/exact_bound.h"
#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"
#include "core/search/variables.h"

namespace tofu {

/*!
 * \brief Eliminate a problem or, if it is too large, improve its plan and its bound in `state`.
 *
 * `start` is a known plan, or empty. The pairs of `problem` are moved if it has no stars.
 */
void SolveProblem(const std::vector<int>& start, ExactProblem* problem, ExactState* state);

/*! \brief A plan and its cost. */
struct FoundPlan {
  Assignment plan;
  int64_t bytes = 0;
};

/*!
 * \brief Search among some sequences of each variable. They include the sequences of the plan
 * `best`.
 *
 * Takes a share of the remaining effort of `state`, which counts it and reports `stage`.
 * \return a plan that costs less than `best`, if one is found
 * \throws std::length_error if the tables take more than half of that effort
 */
std::optional<FoundPlan> SearchAmong(const SearchVariables& variables,
                                     std::vector<SharedSequences> sequences, const FoundPlan& best,
                                     double share, const char* stage, ExactState* state);

/*! \brief Additions for an entry of a table of costs. */
double CountAdditions(const WorkerGrid& grid);

/*! \brief The limits of tables that take half of an effort. */
ExactSize MakeSize(const ExactLimits& limits, double additions_per_entry);

}  // namespace tofu
