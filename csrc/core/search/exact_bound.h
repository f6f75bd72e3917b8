/*!
 * \file exact_bound.h
 * \brief The part of the exact search that elimination alone cannot do: bounds, the values that
 * they rule out, and elimination of what is left.
 */
#ifndef TOFU_CORE_SEARCH_EXACT_BOUND_H_
#define TOFU_CORE_SEARCH_EXACT_BOUND_H_

#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

struct BoundStatistics {
  int num_sweeps = 0;  // of message passing
};

/*!
 * \brief Raises the bound, improves the plan and drops values, until the plan is proved, nothing
 * moves any more or the time is over.
 *
 * Bounds come from message passing (bound.h), and on the costs that it has spread, from
 * mini-buckets of growing size (mini_buckets.h). Both say what each value costs at least; values
 * above the best plan go.
 */
BoundStatistics SearchByBounds(const ExactProblem& problem, Part* part, ExactState* state);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_EXACT_BOUND_H_
