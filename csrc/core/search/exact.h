/*!
 * \file exact.h
 * \brief The exact search: all steps of the recursion chosen at once, with a proof.
 *
 * Every variable takes one sequence of choices (exact_problem.h). The problem shrinks by what
 * cannot be part of an optimal plan, until elimination (eliminate.h) solves what is left:
 *  1. values that another value of the same variable is never worse than (dominance.h);
 *  2. values that cost more, under a lower bound (bound.h, mini_buckets.h) of the contracted
 * problem (contract.h), than a plan is known to cost.
 *
 * A bound and a plan that meet are a proof without elimination. Where neither ends in the time
 * given, the result is the best plan found and the proven bound.
 */
#ifndef TOFU_CORE_SEARCH_EXACT_H_
#define TOFU_CORE_SEARCH_EXACT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/cost/cost.h"
#include "core/graph/graph.h"
#include "core/search/recursive.h"
#include "core/search/variables.h"

namespace tofu {

/*!
 * \brief How much the search may do beyond the recursion and its tables.
 *
 * `seconds` are counted in operations, as many as a core does in that time, so that a search that
 * is cut short finds the same plan in every run. The clock ends it as well, at kMostSlowness times
 * as many seconds.
 */
struct ExactLimits {
  double seconds = 60;
  size_t max_table_entries = size_t{1} << 22;  // of one elimination table; 18 bytes each
  double clock_seconds = 0;                    // kMostSlowness times `seconds` where it is 0
  double max_bytes = 0x1p31;  // of the problem, and of the tables of one elimination
};

/*! \brief A machine on which operations take this many times as long is too slow for equal plans.
 */
constexpr double kMostSlowness = 4;

struct ExactResult {
  SearchResult plan;
  int64_t lower_bound = 0;  // bytes; no plan costs less
  bool is_optimal = false;  // the plan costs the bound; it is the one of the least tie, unless a
                            // bound proved it that says nothing of ties
  int64_t recursive_bytes = 0;  // what the recursive search came to; 0 where it found no plan
  int64_t held_bytes = 0;       // by all tables at the same time, at most
  int num_sweeps = 0;           // of message passing
};

/*! \brief Called at every stage and every now and then with (stage, best bytes so far or -1,
 * bound); an exception from it ends the search. */
using ExactProgress = std::function<void(const std::string&, int64_t, int64_t)>;

/*!
 * \brief Searches the best plan of all for the grid.
 * \throws std::invalid_argument for hints that cannot be met, std::runtime_error where neither
 * search can hold its tables.
 */
ExactResult SearchExact(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                        const ExactLimits& limits, const ExactProgress& progress);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_EXACT_H_
