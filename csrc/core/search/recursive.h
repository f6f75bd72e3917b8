/*!
 * \file recursive.h
 * \brief The recursive search (section 5.2 of the paper), which chooses for one round at a time.
 *
 * Round i chooses an axis for every operator and a dimension for every tensor. Rounds 1 to i-1 are
 * fixed, and the cost of rounds 1 to i is minimised exactly by elimination (eliminate.h).
 * Structural hashes (canonical.h) decide between plans of equal cost, so the plan does not depend
 * on ids or names.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "core/cost/cost.h"
#include "core/graph/graph.h"
#include "core/search/variables.h"

namespace tofu {

struct SearchResult {
  Assignment assignment;
  std::vector<int64_t> round_bytes;  // bytes that each round adds

  /*! \brief The cost of the plan. */
  int64_t total_bytes() const {
    return std::accumulate(round_bytes.begin(), round_bytes.end(), int64_t{0});
  }
};

/*! \brief Callback that receives the number of rounds done and the bytes so far. An exception from
 * it ends the search. */
using SearchProgress = std::function<void(int, int64_t)>;

/*!
 * \brief Find a plan for the grid and the hints of `variables`.
 * \throws std::invalid_argument for hints that cannot be met, std::runtime_error if a table is too
 * large
 */
SearchResult SearchRecursive(const SearchVariables& variables, const SearchProgress& progress);

}  // namespace tofu
