/*!
 * \file exact_problem.h
 * \brief The choice of all rounds of a plan at once, as a pairwise problem.
 *
 * The values of a variable are its feasible sequences of choices, one for each round. The cost of a
 * plan is a sum over incidences (cost.h), which are functions of two variables each. If the graph
 * shares regions, some reads of a tensor in one phase may have equal regions. These reads become a
 * star (message_passing.h) over the tensor's layout and the readers' choices.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/bounds/message_passing.h"
#include "core/cost/cost.h"
#include "core/elimination/pairwise.h"
#include "core/search/problem_size.h"
#include "core/search/variables.h"

namespace tofu {

struct ExactProblem {
  PairwiseProblem pairwise;
  std::vector<SharedSequences> sequences;  // by variable: the sequences of its values
  std::vector<Star> stars;                 // costs of shared regions
  std::vector<int> order;                  // order of the variables in the graph
  bool is_by_class = false;                // costs are bounds for classes of sequences
  size_t num_entries = 0;                  // entries of all distinct tables
  double held_bytes = 0;                   // estimate of all memory
};

/*!
 * \brief Tabulate the problem. Costs above `ceiling` count as `ceiling`, because no plan may have
 * them.
 * \throws std::length_error before the problem exceeds `size`, std::invalid_argument for hints
 * that cannot be met
 */
ExactProblem BuildExactProblem(const SearchVariables& variables, int64_t ceiling,
                               const ExactSize& size, const std::function<void()>& pause);

/*! \brief The cost of a pair of sequences:
 *  - kExact: what IncidenceBytes returns.
 *  - kByClass: a lower bound for all sequences of their classes (class_cost.h).
 *  - kLastRound: exact, but each read counts separately, and only the last round breaks ties.
 */
enum class Counting { kExact, kByClass, kLastRound };

/*! \brief Tabulate the problem over some sequences of each variable. Throws like
 * BuildExactProblem. If costs are lower bounds, tables that are too large are left out instead.
 * `holding_share` is the counted share of the costs of memory. */
ExactProblem BuildProblem(const SearchVariables& variables, std::vector<SharedSequences> sequences,
                          Counting counting, int64_t ceiling, const ExactSize& size,
                          const std::function<void()>& pause, double holding_share = 1);

/*! \brief Tabulate the first rounds of a plan, as a problem without stars. `grid` has these rounds.
 */
PairwiseProblem BuildRounds(const SearchVariables& variables, const WorkerGrid& grid,
                            std::vector<SharedSequences> sequences);

/*! \brief Return the number of rounds that can be changed separately. */
inline int CountRounds(const ExactProblem& problem) {
  return problem.is_by_class ? 0 : static_cast<int>(problem.sequences.front()->front().size());
}

/*! \brief Convert an assignment to values. A variable that lacks the sequence gets -1. */
std::vector<int> FindValues(const ExactProblem& problem, const SearchVariables& variables,
                            const Assignment& assignment);

Assignment ToAssignment(const ExactProblem& problem, const SearchVariables& variables,
                        const std::vector<int>& values);

}  // namespace tofu
