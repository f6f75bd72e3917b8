/*!
 * \file exact.cc
 * \brief Stages of the exact search.
 */
#include "core/search/exact.h"

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/sharing.h"
#include "core/search/exact_bound.h"
#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"
#include "core/search/shared_search.h"

namespace tofu {

namespace {

class ExactSearch {
 public:
  ExactSearch(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
              const ExactLimits& limits, const ExactProgress& progress)
      : graph_(graph),
        grid_(grid),
        hints_(hints),
        limits_(limits),
        variables_(graph, grid, hints),
        state_(limits, progress) {}

  ExactResult Run() {
    FindRecursivePlan();
    try {
      problem_ = BuildExactProblem(graph_, grid_, variables_, Ceiling(),
                                   {MostEntries(), limits_.max_bytes},
                                   [this] { state_.Report("tables"); });
      CountTables();
      Solve();
    } catch (const std::length_error& error) {
      if (!has_plan()) throw std::runtime_error(error.what());
    } catch (const std::bad_alloc&) {
      // Bounds that were proved before stay valid.
      if (!has_plan()) throw;
    }
    return MakeResult();
  }

 private:
  bool has_plan() const { return assignment_ || state_.has_plan(); }

  int64_t Ceiling() const { return assignment_ ? result_.recursive_bytes + 1 : kForbiddenBytes; }

  /*! \brief The most entries of all tables. If tables take longer than the search may, the
   * recursion's plan is the result. */
  size_t MostEntries() const {
    constexpr double kLeast = 0.05;  // seconds of work for tables, even if no time is left
    const double affordable =
        std::max(state_.SecondsLeft(), kLeast) * kAdditionsPerSecond / PerEntry();
    return assignment_ ? static_cast<size_t>(std::min<double>(affordable, kMaxExactEntries))
                       : kMaxExactEntries;
  }

  /*! \brief Additions per entry of a table. */
  double PerEntry() const {
    constexpr double kAdditionsPerWorker = 24;  // additions to compute a worker's box
    return kAdditionsPerWorker * static_cast<double>(grid_.num_workers());
  }

  void FindRecursivePlan() {
    try {
      result_.plan = SearchRecursive(graph_, grid_, hints_,
                                     [this](int, int64_t) { state_.Report("recursive"); });
      assignment_ = result_.plan.assignment;
      for (int64_t bytes : result_.plan.round_bytes) result_.recursive_bytes += bytes;
    } catch (const std::runtime_error&) {
      // Too densely connected for elimination: message passing will find a plan.
    } catch (const std::bad_alloc&) {
      // Message passing will find a plan.
    }
  }

  /*! \brief Count the effort and memory of the tables, without which nothing can be proved. */
  void CountTables() {
    const auto entries = static_cast<double>(problem_.num_entries);
    state_.Spend(PerEntry() * entries);
    state_.Hold(std::max(problem_.held_bytes,
                         sizeof(int64_t) * entries + CountTableBytes(problem_.pairwise)));
  }

  void Solve() {
    if (!problem_.stars.empty()) return SolveShared();
    Part part = MakePart(std::move(problem_.pairwise));
    if (assignment_) state_.Offer(part, FindValues(problem_, variables_, *assignment_));
    state_.DropDominated(&part);
    if (state_.Solve(part) >= 0) return state_.Prove();
    const BoundStatistics statistics = SearchByBounds(problem_, &part, &state_);
    result_.num_sweeps = statistics.num_sweeps;
  }

  void SolveShared() {
    std::vector<int> values(variables_.size(), 0);
    if (assignment_) values = FindValues(problem_, variables_, *assignment_);
    state_.Offer(values, EvaluateShared(problem_, values));
    result_.num_sweeps = SearchShared(problem_, &state_).num_sweeps;
  }

  ExactResult MakeResult() {
    if (state_.has_plan()) assignment_ = ToAssignment(problem_, variables_, state_.values());
    const PlanCost cost = EvaluatePlan(graph_, grid_, *assignment_);
    // Operators of a group share fetches if their choices are equal by coincidence. Tables cannot
    // express this, so plans may cost less than counted.
    const bool is_counted = !MayShareByChance(graph_);
    if (state_.has_plan() && is_counted && cost.total_bytes != state_.bytes()) {
      throw std::logic_error("the plan costs " + std::to_string(cost.total_bytes) +
                             " bytes, and the search counted " + std::to_string(state_.bytes()));
    }
    result_.plan.assignment = std::move(*assignment_);
    result_.plan.round_bytes = cost.round_bytes;
    result_.lower_bound = is_counted ? std::min(state_.bound(), cost.total_bytes) : 0;
    result_.held_bytes = state_.held_bytes();
    result_.is_optimal = state_.is_optimal() && is_counted;
    return std::move(result_);
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const Hints& hints_;
  const ExactLimits& limits_;
  SearchVariables variables_;
  ExactState state_;
  ExactProblem problem_;
  std::optional<Assignment> assignment_;
  ExactResult result_;
};

}  // namespace

ExactResult SearchExact(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                        const ExactLimits& limits, const ExactProgress& progress) {
  return ExactSearch(graph, grid, hints, limits, progress).Run();
}

}  // namespace tofu
