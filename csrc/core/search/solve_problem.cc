/*!
 * \file solve_problem.cc
 * \brief The choice between elimination and bounds.
 */
#include "core/search/solve_problem.h"

#include <utility>

#include "core/search/shared_search.h"

namespace tofu {

BoundStatistics SolveProblem(const std::vector<int>& start, ExactProblem* problem,
                             ExactState* state) {
  if (!problem->stars.empty()) {
    const std::vector<int> values =
        start.empty() ? std::vector<int>(problem->pairwise.size(), 0) : start;
    state->Offer(values, EvaluateShared(*problem, values));
    return SearchShared(*problem, state);
  }
  Part part = MakePart(std::move(problem->pairwise));
  if (!start.empty()) state->Offer(part, start);
  state->DropDominated(&part);
  if (state->Solve(part) >= 0) {
    state->Prove();
    return {};
  }
  return SearchByBounds(*problem, &part, state);
}

}  // namespace tofu
