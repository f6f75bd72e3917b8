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

/*! \brief The first rounds of a grid, and the prices of their bytes and fetches in a bound. */
struct PricedPrefix {
  int rounds;
  double price;
  double latency;
};

/*!
 * \brief List the prefixes of the rounds, such that the sum of their bytes and fetches times their
 * prices is at most the cost of a plan.
 *
 * With relays, the cost of a plan is the sum over levels of (price of the level - price of the
 * level below) times the bytes of the rounds down to this level. So each prefix has the difference
 * of two prices. If a lower level has a higher price, this gives no bound. A fetch that crosses
 * rounds of a prefix waits at least for their least latency. So each prefix has the difference of
 * two least latencies. Without relays, each byte costs at least the least price.
 */
std::vector<PricedPrefix> ListPrefixes(const Graph& graph, const WorkerGrid& grid) {
  const int rounds = grid.num_rounds();
  if (!grid.has_prices()) return {{rounds, 1, 0}};
  std::vector<PricedPrefix> prefixes;
  double least = grid.price(0);
  double latency = grid.latency(0);
  bool descends = true;
  for (int round = 0; round < rounds; ++round) {
    const bool is_last = round + 1 == rounds;
    least = std::min(least, grid.price(round));
    latency = std::min(latency, grid.latency(round));
    if (!is_last && grid.price(round) == grid.price(round + 1)) continue;
    if (!prefixes.empty()) prefixes.back().latency -= latency;
    prefixes.push_back(
        {round + 1, grid.price(round) - (is_last ? 0 : grid.price(round + 1)), latency});
    descends = descends && prefixes.back().price > 0;
  }
  if (!graph.relays_in_groups()) return {{rounds, least, latency}};
  return descends ? prefixes : std::vector<PricedPrefix>{{rounds, 0, 0}};
}

Assignment TakeFirstRounds(const Assignment& plan, int rounds) {
  Assignment first = plan;
  for (auto* choices : {&first.operators, &first.tensors}) {
    for (std::vector<int>& sequence : *choices) sequence.resize(rounds);
  }
  return first;
}

Hints TakeFirstRounds(const Hints& hints, int rounds) {
  Hints first = hints;
  for (auto* choices : {&first.operators, &first.tensors}) {
    for (auto& of_variable : *choices) of_variable.second.resize(rounds);
  }
  return first;
}

/*! \brief The best classes on a grid of one level, as a sequence of each. */
struct BestClasses {
  int64_t lower_bound = 0;  // every plan costs at least this many bytes
  Sequences classes;        // by variable
};

/*! \brief Search over classes, starting from those of a plan, in a share of the remaining effort.
 */
BestClasses FindBestClasses(const SearchVariables& variables, const Assignment& plan,
                            double holding_share, double share, ExactState* state) {
  constexpr double kAdditionsPerClass = 1000;  // additions for an entry of a table and its sweeps
  const auto report = [state] { state->Report("classes"); };
  const ExactLimits limits = state->MakeLimits(share);
  const ExactProgress progress = [&](const std::string&, int64_t, int64_t) { report(); };
  ExactState found(limits, progress);
  const int64_t ceiling = EvaluatePlan(variables.graph(), variables.grid(), plan).total_bytes + 1;
  ExactProblem problem = BuildProblem(variables, variables.Classes(), Counting::kByClass, ceiling,
                                      MakeSize(limits, kAdditionsPerClass), report, holding_share);
  found.Spend(kAdditionsPerClass * static_cast<double>(problem.num_entries));
  const std::vector<int> kinds = NumberRounds(variables.grid());
  std::map<const void*, std::map<std::vector<int>, int>> known;  // by list and class
  std::vector<int> start;
  const Sequences choices = variables.ChoicesOf(plan);
  for (size_t v = 0; v < choices.size(); ++v) {
    const Sequences& classes = *problem.sequences[v];
    std::map<std::vector<int>, int>& numbers = known[&classes];
    if (numbers.empty()) {
      for (const std::vector<int>& of_class : classes)
        numbers.emplace(DescribeClass(kinds, of_class), static_cast<int>(numbers.size()));
    }
    start.push_back(numbers.at(DescribeClass(kinds, choices[v])));
  }
  SolveProblem(start, &problem, &found);
  state->TakeEffort(found);
  BestClasses best{found.bound(), {}};
  for (size_t v = 0; v < choices.size(); ++v)
    best.classes.push_back((*problem.sequences[v])[found.values()[v]]);
  return best;
}

class ClassSearch {
 public:
  ClassSearch(const SearchVariables& variables, const Hints& hints, const FoundPlan& best,
              ExactState* state)
      : variables_(variables),
        grid_(variables.grid()),
        hints_(hints),
        best_(best),
        best_choices_(variables.ChoicesOf(best.plan)),
        state_(*state),
        kinds_(NumberRounds(grid_)) {}

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
  static constexpr double kBoundShare = 0.6;  // of the remaining effort
  static constexpr double kPlanShare = 0.4;

  void BoundByClasses() {
    constexpr double kRounding = 1 - 1e-9;  // of sums of floating point numbers
    double bound = 0;
    for (const PricedPrefix& prefix : ListPrefixes(variables_.graph(), grid_)) {
      const bool is_whole = prefix.rounds == grid_.num_rounds();
      const WorkerGrid first =
          grid_.OneLevel(prefix.rounds, prefix.price > 0 ? prefix.latency / prefix.price : 0);
      const SearchVariables variables(variables_, first, TakeFirstRounds(hints_, prefix.rounds));
      BestClasses best = FindBestClasses(variables, TakeFirstRounds(best_.plan, prefix.rounds),
                                         is_whole && prefix.price > 0 ? 1 / prefix.price : 0,
                                         kBoundShare, &state_);
      bound += prefix.price * static_cast<double>(best.lower_bound);
      result_.lower_bound = static_cast<int64_t>(grid_.has_prices() ? kRounding * bound : bound);
      if (is_whole) classes_ = std::move(best.classes);
    }
  }

  /*! \brief Search among the sequences of the best classes and of the best plan's classes. If these
   * are too many, keep only those that split a dimension in neighbouring rounds. */
  void SearchInClasses() {
    try {
      SearchAmongMembers(false);
    } catch (const std::length_error&) {
      SearchAmongMembers(true);
    }
  }

  void SearchAmongMembers(bool in_neighbours) {
    result_.plan =
        SearchAmong(variables_, ListMembers(in_neighbours), best_, kPlanShare, "orders", &state_);
  }

  /*! \brief The number of neighbouring rounds with different choices. */
  static int CountChanges(const std::vector<int>& sequence) {
    int changes = 0;
    for (size_t round = 1; round < sequence.size(); ++round)
      changes += sequence[round] != sequence[round - 1];
    return changes;
  }

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

  const SearchVariables& variables_;
  const WorkerGrid& grid_;
  const Hints& hints_;
  const FoundPlan& best_;
  Sequences best_choices_;  // by variable
  ExactState& state_;
  std::vector<int> kinds_;  // by round
  Sequences classes_;       // by variable, a sequence of the best class
  ClassSearchResult result_;
};

}  // namespace

ClassSearchResult SearchClasses(const SearchVariables& variables, const Hints& hints,
                                const FoundPlan& best, ExactState* state) {
  return ClassSearch(variables, hints, best, state).Run();
}

}  // namespace tofu
