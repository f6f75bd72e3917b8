/*!
 * \file exact.h
 * \brief The exact search, which chooses for all rounds at once and proves the result.
 *
 * Each operator and each tensor is a variable, whose values are sequences of choices, one for each
 * round (exact_problem.h). Values that cannot be in an optimal plan are removed, until elimination
 * (eliminate.h) can solve the rest:
 *  1. values that another value of the variable dominates (dominance.h), and
 *  2. values whose lower bound (message_passing.h, mini_buckets.h), on the contracted problem
 * (contract.h), exceeds the cost of a known plan.
 *
 * A plan whose cost equals the bound is optimal, so it needs no elimination. If the time is over
 * before a proof, the result is the best plan found and the bound.
 *
 * The search starts from the plan of the recursive search, or a better one of the caller. For many
 * workers, and if nothing else proves the plan, a search over classes of choices (class_search.h)
 * bounds all plans, and searches on coarse grids (coarse_grids.h) find other plans to start from.
 * If the tables of all rounds are too large, the search improves the best of these plans two rounds
 * at a time.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "core/cost/cost.h"
#include "core/graph/graph.h"
#include "core/search/recursive.h"
#include "core/search/variables.h"

namespace tofu {

/*! \brief Value of ExactLimits::max_fine_rounds without coarse grids and classes. */
constexpr int kOnlyFine = std::numeric_limits<int>::max();

/*!
 * \brief Limits of the exact search. The recursive search, which it starts from, does not count.
 *
 * `seconds` are counted in operations, so that a search that runs out of time finds the same plan
 * in every run. After `processor_seconds` on all processors together, it ends in any case. It also
 * ends when its bound reaches `known_bytes`.
 */
struct ExactLimits {
  double seconds = 60;
  size_t max_table_entries = size_t{1} << 22;  // entries of an elimination table, 18 bytes each
  double processor_seconds = 0;                // 0: derived from `seconds` and kMostSlowness
  double max_bytes = 0x1p31;   // bytes of the problem, and of the tables of an elimination
  int max_fine_rounds = 3;     // grids of more rounds are also searched by coarse grids and classes
  bool refines_start = false;  // improve the given plan, without recursion and coarse grids
  int64_t known_bytes = std::numeric_limits<int64_t>::max();  // cost of a plan found elsewhere
};

/*! \brief The search ends if it takes this many times the processor time that it counted. Plans may
 * then differ between runs. */
constexpr double kMostSlowness = 4;

struct ExactResult {
  SearchResult plan;
  int64_t lower_bound = 0;  // every plan costs at least this many bytes
  bool is_optimal = false;  // the plan costs the bound; if elimination proved it, its tie is least

  int64_t recursive_bytes = 0;  // cost of the recursive search's plan; 0 if it found none
  int64_t held_bytes = 0;       // most bytes of all tables at one time
  int num_sweeps = 0;           // sweeps of message passing
  double spent_seconds = 0;     // effort, counted in operations
};

/*! \brief Callback that receives the stage, the best bytes so far or -1, and the bound. An
 * exception from it ends the search. */
using ExactProgress = std::function<void(const std::string&, int64_t, int64_t)>;

/*!
 * \brief Find the best plan for the grid. If the search may find `start`, the plan costs at most as
 * much.
 * \throws std::invalid_argument for hints that cannot be met, std::runtime_error if neither search
 * can hold its tables
 */
ExactResult SearchExact(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                        const ExactLimits& limits, const ExactProgress& progress,
                        const Assignment* start = nullptr);

}  // namespace tofu
