/*!
 * \file exact.h
 * \brief The exact search: chooses all rounds of the recursion at once, and proves the result.
 *
 * Every variable takes a sequence of choices (exact_problem.h). Values that cannot be in an optimal
 * plan are removed, until elimination (eliminate.h) solves the rest:
 *  1. values that another value of the variable dominates (dominance.h);
 *  2. values whose lower bound (bound.h, mini_buckets.h), on the contracted problem (contract.h),
 * exceeds the cost of a known plan.
 *
 * A bound equal to the cost of a plan proves it without elimination. If the time is over before,
 * the result is the best plan found and the proven bound.
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
 * \brief Limits of the search beyond the recursion and its tables.
 *
 * `seconds` are counted in operations, so that a search that is cut short finds the same plan in
 * every run. The clock ends it at `clock_seconds`.
 */
struct ExactLimits {
  double seconds = 60;
  size_t max_table_entries = size_t{1} << 22;  // of an elimination table; 18 bytes each
  double clock_seconds = 0;                    // 0: kMostSlowness times `seconds`
  double max_bytes = 0x1p31;  // of the problem, and of the tables of an elimination
};

/*! \brief On a machine slower than this factor, the clock ends the search and plans may differ. */
constexpr double kMostSlowness = 4;

struct ExactResult {
  SearchResult plan;
  int64_t lower_bound = 0;  // every plan costs at least this many bytes
  bool is_optimal = false;  // the plan costs the bound; its tie is least unless a bound proved it

  int64_t recursive_bytes = 0;  // of the recursive search; 0 if it found no plan
  int64_t held_bytes = 0;       // most bytes of all tables at one time
  int num_sweeps = 0;           // of message passing
};

/*! \brief Receives (stage, best bytes so far or -1, bound). An exception from it ends the search.
 */
using ExactProgress = std::function<void(const std::string&, int64_t, int64_t)>;

/*!
 * \brief Find the best plan for the grid.
 * \\throws std::invalid_argument for hints that cannot be met, std::runtime_error if neither search
 * can hold its tables
 */
ExactResult SearchExact(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                        const ExactLimits& limits, const ExactProgress& progress);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_EXACT_H_
