/*!
 * \file exact_problem.h
 * \brief The whole choice of a plan, all steps at once, as a pairwise problem.
 *
 * The values of a variable are all its feasible sequences of choices, one per step. The cost of a
 * plan is the bytes of the last level's geometry, which is a sum over incidences (cost.h). Where
 * the graph shares regions, the reads of one tensor in one phase are a star instead, of the layout
 * and their operators' choices, where these may ask for the same.
 */
#ifndef TOFU_CORE_SEARCH_EXACT_PROBLEM_H_
#define TOFU_CORE_SEARCH_EXACT_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/bounds/star_passing.h"
#include "core/cost/cost.h"
#include "core/elimination/pairwise.h"
#include "core/search/variables.h"

namespace tofu {

struct ExactProblem {
  PairwiseProblem pairwise;
  std::vector<SharedSequences> sequences;  // by variable: what its values stand for
  std::vector<Star> stars;                 // prices of regions that several reads share
  std::vector<int> order;                  // the variables as they come in the graph
  size_t num_entries = 0;                  // of these tables
  double held_bytes = 0;                   // about what all of it takes
};

/*! \brief More entries than this of all distinct tables would be too many to hold. */
constexpr size_t kMaxExactEntries = size_t{1} << 26;

/*! \brief The values of a variable at most: eliminations number them in 16 bits. */
constexpr double kMaxSequences = (1 << 16) - 1;

/*! \brief What a problem may hold. */
struct ExactSize {
  size_t max_entries = kMaxExactEntries;  // of all distinct tables
  double max_bytes = 0;                   // of all that it consists of
};

/*!
 * \brief Tabulates the problem. Tables hold no more than `ceiling` bytes: what costs more than a
 * known plan is as good as forbidden.
 * \throws std::length_error before the problem passes `size`, std::invalid_argument for hints that
 * cannot be met.
 */
ExactProblem BuildExactProblem(const Graph& graph, const WorkerGrid& grid,
                               const SearchVariables& variables, int64_t ceiling,
                               const ExactSize& size, const std::function<void()>& pause);

/*! \brief The values of an assignment that keeps to ties and shared choices, -1 for a variable
 * whose choices are none of its sequences. */
std::vector<int> FindValues(const ExactProblem& problem, const SearchVariables& variables,
                            const Assignment& assignment);

/*! \brief The assignment of values. */
Assignment ToAssignment(const ExactProblem& problem, const SearchVariables& variables,
                        const std::vector<int>& values);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_EXACT_PROBLEM_H_
