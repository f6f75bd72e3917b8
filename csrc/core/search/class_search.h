/*!
 * \file class_search.h
 * \brief Search over classes of choices. The number of classes hardly grows with the number of
 * workers.
 *
 * Sequences of choices that split the same dimensions equally often form one *class*
 * (class_cost.h). The cost of two classes is a lower bound for all their sequences. So the least
 * cost over classes is a lower bound for all plans. The best classes tell how often each dimension
 * is split. A second search, among the sequences of these classes, decides in which rounds.
 *
 * On an interconnect with several levels, each level has such a search, over the rounds of this
 * level and of the levels above. The cost of a plan is at least the sum over levels of
 *     least cost * (price of the level - price of the level below),
 * where the least cost counts bytes and, if levels have latencies, fetches.
 */
#pragma once

#include <cstdint>
#include <optional>

#include "core/graph/graph.h"
#include "core/search/exact_state.h"
#include "core/search/solve_problem.h"
#include "core/search/variables.h"

namespace tofu {

struct ClassSearchResult {
  int64_t lower_bound = 0;
  std::optional<FoundPlan> plan;  // a better plan, among the sequences of the best classes
};

/*!
 * \brief Bound the cost of all plans, and look for a better plan than `best`. `variables` has these
 * `hints`.
 *
 * The searches take a share of the effort of `state`, which only counts it.
 */
ClassSearchResult SearchClasses(const SearchVariables& variables, const Hints& hints,
                                const FoundPlan& best, ExactState* state);

}  // namespace tofu
