/*!
 * \file class_search.h
 * \brief Search over classes of choices, whose number hardly grows with the number of workers.
 *
 * Sequences of choices that split the same dimensions equally often are one *class* (class_cost.h).
 * With a lower bound as the cost of two classes, the search over classes is a relaxation: its least
 * cost is a lower bound for all plans. Its plan says how often each dimension is split. A second
 * search, among the sequences of these classes, decides in which rounds.
 *
 * On an interconnect with several levels, each level has its own relaxation, over the rounds of
 * this level and of those above. The cost of a plan is at least the sum of their least costs, each
 * at the price by which its level exceeds the level below.
 */
#ifndef TOFU_CORE_SEARCH_CLASS_SEARCH_H_
#define TOFU_CORE_SEARCH_CLASS_SEARCH_H_

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
 * \brief Bound the cost of all plans, and look for a better plan than `best`.
 *
 * The searches take a share of the effort of `state`, which only counts it.
 */
ClassSearchResult SearchClasses(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                                const SearchVariables& variables, const FoundPlan& best,
                                ExactState* state);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_CLASS_SEARCH_H_
