/*!
 * \file exact_bound.h
 * \brief The main loop of the exact search: bounds, removal of values, and elimination of the rest.
 */
#pragma once

#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

/*!
 * \brief Raise the bound, improve the plan and remove values until the plan is proved, nothing
 * changes, or the time is over.
 *
 * Bounds come from message passing (message_passing.h), and then from mini-buckets of growing size
 * (mini_buckets.h) on the costs that message passing has spread. Values whose bound exceeds the
 * cost of the best plan are removed.
 */
void SearchByBounds(const ExactProblem& problem, Part* part, ExactState* state);

}  // namespace tofu
