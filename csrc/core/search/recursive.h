/*!
 * \file recursive.h
 * \brief The recursive search (section 5.2 of the paper): one step at a time, each conditioned on
 * the steps before.
 *
 * Step i chooses one axis for every operator class and one dimension for every tensor class so that
 *     cost(geometry of levels 1..i, choices of steps 1..i-1 fixed)
 * is least, exactly, by elimination (eliminate.h). Plans of equal cost are told apart by structural
 * hashes (canonical.h), so that the plan does not depend on ids or names.
 */
#ifndef TOFU_CORE_SEARCH_RECURSIVE_H_
#define TOFU_CORE_SEARCH_RECURSIVE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/cost/cost.h"
#include "core/graph/graph.h"
#include "core/search/variables.h"

namespace tofu {

struct SearchResult {
  Assignment assignment;
  std::vector<int64_t> step_bytes;  // increments; their sum is the plan's cost
  size_t largest_table = 0;         // entries of the largest elimination table
};

/*! \brief Called after each step with (steps done, bytes so far); an exception from it ends the
 * search. */
using SearchProgress = std::function<void(int, int64_t)>;

/*!
 * \brief Searches a plan for the grid.
 * \throws std::invalid_argument for hints that cannot be met, std::runtime_error where a table
 * grows too large.
 */
SearchResult SearchRecursive(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                             const SearchProgress& progress);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_RECURSIVE_H_
