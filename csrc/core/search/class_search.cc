/*!
 * \file class_search.cc
 * \brief Bounds over classes, and plans within the best of them.
 */
#include "core/search/class_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/class_cost.h"
#include "core/search/exact_problem.h"

namespace tofu {

namespace {

using Sequences = std::vector<std::vector<int>>;

class ClassSearch {
 public:
  ClassSearch(const Graph& graph, const WorkerGrid& grid, const SearchVariables& variables,
              const FoundPlan& best, ExactState* state)
      : graph_(graph),
        grid_(grid),
        variables_(variables),
        best_(best),
        best_choices_(variables.ChoicesOf(best.plan)),
        state_(*state),
        kinds_(NumberRounds(grid)) {}

  ClassSearchResult Run() {
    try {
      BoundByClasses();
      if (result_.lower_bound < best_.bytes) SearchInClasses();
    } catch (const std::length_error&) {
      // Too many classes, or too many sequences in them.
    } catch (const std::bad_alloc&) {
      // The bound remains.
    }
    return std::move(result_);
  }

 private:
  static constexpr double kBoundShare = 0.4;  // of the remaining effort
  static constexpr double kPlanShare = 0.4;
  static constexpr double kAdditionsPerClass =
      1000;  // additions for an entry of a table and its sweeps

  void BoundByClasses() {
    const ExactLimits limits = state_.MakeLimits(kBoundShare);
    const ExactProgress report = [this](const std::string&, int64_t, int64_t) {
      state_.Report("classes");
    };
    ExactState state(limits, report);
    ExactProblem problem = BuildProblem(
        graph_, grid_, variables_, variables_.Classes(), Counting::kByClass, best_.bytes + 1,
        MakeSize(limits, kAdditionsPerClass), [&] { state_.Report("classes"); });
    state.Spend(kAdditionsPerClass * static_cast<double>(problem.num_entries));
    std::vector<int> start;
    for (size_t v = 0; v < best_choices_.size(); ++v)
      start.push_back(FindClass(problem, v, best_choices_[v]));
    SolveProblem(start, &problem, &state);
    state_.TakeEffort(state);
    result_.lower_bound = state.bound();
    for (size_t v = 0; v < best_choices_.size(); ++v)
      classes_.push_back((*problem.sequences[v])[state.values()[v]]);
  }

  /*! \brief Search among the sequences of the classes that were found, and those of the best plan.
   * If these are too many, only those that split a dimension in neighbouring rounds are searched.
   */
  void SearchInClasses() {
    try {
      SearchAmongMembers(false);
    } catch (const std::length_error&) {
      SearchAmongMembers(true);
    }
  }

  void SearchAmongMembers(bool in_neighbours) {
    result_.plan = SearchAmong(graph_, grid_, variables_, ListMembers(in_neighbours), best_,
                               kPlanShare, "orders", &state_);
  }

  /*! \brief The number of neighbouring rounds with different choices. */
  static int CountChanges(const std::vector<int>& sequence) {
    int changes = 0;
    for (size_t round = 1; round < sequence.size(); ++round)
      changes += sequence[round] != sequence[round - 1];
    return changes;
  }

  /*! \brief Leave the sequences with the fewest changes. */
  static void KeepFewestChanges(Sequences* sequences) {
    int fewest = std::numeric_limits<int>::max();
    for (const std::vector<int>& sequence : *sequences)
      fewest = std::min(fewest, CountChanges(sequence));
    const auto has_more = [&](const std::vector<int>& sequence) {
      return CountChanges(sequence) > fewest;
    };
    sequences->erase(std::remove_if(sequences->begin(), sequences->end(), has_more),
                     sequences->end());
  }

  int FindClass(const ExactProblem& problem, size_t variable, const std::vector<int>& sequence) {
    std::map<std::vector<int>, int>& known = class_of_[problem.sequences[variable].get()];
    if (known.empty()) {
      for (const std::vector<int>& of_class : *problem.sequences[variable])
        known.emplace(DescribeClass(kinds_, of_class), static_cast<int>(known.size()));
    }
    return known.at(DescribeClass(kinds_, sequence));
  }

  std::vector<SharedSequences> ListMembers(bool in_neighbours) const {
    const std::vector<int> numbers = variables_.NumberSequences();
    std::map<std::pair<int, std::vector<std::vector<int>>>, SharedSequences> known;
    std::vector<SharedSequences> members;
    for (int v = 0; v < variables_.size(); ++v) {
      SharedSequences& of_variable = known[{numbers[v], {classes_[v], best_choices_[v]}}];
      if (of_variable == nullptr) {
        Sequences sequences = variables_.ListClass(v, kinds_, classes_[v]);
        if (in_neighbours) KeepFewestChanges(&sequences);
        sequences.push_back(best_choices_[v]);
        std::sort(sequences.begin(), sequences.end());
        sequences.erase(std::unique(sequences.begin(), sequences.end()), sequences.end());
        of_variable = std::make_shared<Sequences>(std::move(sequences));
      }
      members.push_back(of_variable);
    }
    return members;
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const SearchVariables& variables_;
  const FoundPlan& best_;
  Sequences best_choices_;  // by variable
  ExactState& state_;
  std::vector<int> kinds_;  // by round
  Sequences classes_;       // by variable, a sequence of the best class
  std::map<const void*, std::map<std::vector<int>, int>> class_of_;
  ClassSearchResult result_;
};

}  // namespace

ClassSearchResult SearchClasses(const Graph& graph, const WorkerGrid& grid,
                                const SearchVariables& variables, const FoundPlan& best,
                                ExactState* state) {
  return ClassSearch(graph, grid, variables, best, state).Run();
}

}  // namespace tofu
