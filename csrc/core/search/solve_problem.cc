/*!
 * \file solve_problem.cc
 * \brief The choice between elimination and bounds.
 */
#include "core/search/solve_problem.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/search/shared_search.h"

namespace tofu {

void SolveProblem(const std::vector<int>& start, ExactProblem* problem, ExactState* state) {
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
  } else {
    SearchByBounds(*problem, &part, state);
  }
}

double CountAdditions(const WorkerGrid& grid) {
  constexpr double kAdditionsPerWorker = 24;    // additions to compute a worker's box
  const int boxes = grid.has_prices() ? 2 : 1;  // the prefixes of rounds have as many boxes again
  return kAdditionsPerWorker * boxes * static_cast<double>(grid.num_workers());
}

ExactSize MakeSize(const ExactLimits& limits, double additions_per_entry) {
  const double affordable = limits.seconds / 2 * kAdditionsPerSecond / additions_per_entry;
  return {static_cast<size_t>(std::min<double>(affordable, kMaxExactEntries)), limits.max_bytes};
}

std::optional<FoundPlan> SearchAmong(const SearchVariables& variables,
                                     std::vector<SharedSequences> sequences, const FoundPlan& best,
                                     double share, const char* stage, ExactState* state) {
  const double additions = CountAdditions(variables.grid());
  const ExactLimits limits = state->MakeLimits(share);
  const ExactProgress report = [&](const std::string&, int64_t, int64_t) { state->Report(stage); };
  ExactState part(limits, report);
  ExactProblem problem =
      BuildProblem(variables, std::move(sequences), Counting::kExact, best.bytes + 1,
                   MakeSize(limits, additions), [&] { state->Report(stage); });
  part.Spend(additions * static_cast<double>(problem.num_entries) +
             kAdditionsPerVariable * variables.size());
  SolveProblem(FindValues(problem, variables, best.plan), &problem, &part);
  state->TakeEffort(part);
  if (part.bytes() >= best.bytes) return std::nullopt;
  return FoundPlan{ToAssignment(problem, variables, part.values()), part.bytes()};
}

}  // namespace tofu
