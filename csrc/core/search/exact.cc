/*!
 * \file exact.cc
 */
#include "core/search/exact.h"

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/cost/sharing.h"
#include "core/search/class_search.h"
#include "core/search/coarse_grids.h"
#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"
#include "core/search/polish.h"
#include "core/search/solve_problem.h"

namespace tofu {

namespace {

class ExactSearch {
 public:
  /*! \brief `variables` has these `hints`. */
  ExactSearch(SearchVariables variables, const Hints& hints, const ExactLimits& limits,
              const ExactProgress& progress, const Assignment* offered = nullptr)
      : graph_(variables.graph()),
        grid_(variables.grid()),
        hints_(hints),
        limits_(limits),
        offered_(offered),
        variables_(std::move(variables)),
        state_(limits, progress) {}

  ExactResult Run() {
    OfferGivenPlan();
    if (!start_ || !limits_.refines_start) FindRecursivePlan();
    state_.StartClock();
    return SearchFromStart();
  }

  /*! \brief Improve a plan of this grid. */
  ExactResult Improve(const SearchResult& plan) {
    Offer(plan);
    return SearchFromStart();
  }

 private:
  static constexpr int kMostJoined = 3;  // rounds of a coarse grid

  struct CoarsePlan {
    JoinedRounds joined;
    SearchResult plan;
    int64_t bytes;
  };

  ExactResult SearchFromStart() {
    const bool is_large = grid_.num_rounds() > limits_.max_fine_rounds;
    if (is_large) SearchOnLargeGrid();
    if (is_large && is_proved()) return MakeResult();
    try {
      problem_ = BuildExactProblem(variables_, Ceiling(), {MostEntries(), limits_.max_bytes},
                                   [this] { state_.Report("tables"); });
      CountTables();
      Solve();
    } catch (const std::length_error& error) {
      if (!has_plan()) throw std::runtime_error(error.what());
      if (!state_.has_plan()) PolishPlan();
    } catch (const std::bad_alloc&) {
      // Bounds that were proved before stay valid.
      if (!has_plan()) throw;
      if (!state_.has_plan()) PolishPlan();
    }
    return MakeResult();
  }

  bool has_plan() const { return start_ || state_.has_plan(); }

  /*! \brief Return true if no plan is better than the start, or than one found elsewhere. */
  bool is_proved() const {
    return start_ && std::min(start_->bytes, limits_.known_bytes) <= state_.bound();
  }

  /*! \brief Return true if the gap between this plan and the bound is at most 1 / `part` of the
   * bound. */
  bool IsNarrow(int64_t part) const {
    return start_ && start_->bytes - state_.bound() <= state_.bound() / part;
  }

  int64_t Ceiling() const { return start_ ? start_->bytes + 1 : kForbiddenBytes; }

  /*! \brief The most entries of all tables. If tables take longer than the search may, the
   * recursion's plan is the result. */
  size_t MostEntries() const {
    constexpr double kLeast = 0.05;  // seconds of work for tables, even if no time is left
    const double affordable =
        std::max(state_.SecondsLeft(), kLeast) * kAdditionsPerSecond / CountAdditions(grid_);
    return start_ ? static_cast<size_t>(std::min<double>(affordable, kMaxExactEntries))
                  : kMaxExactEntries;
  }

  void FindRecursivePlan() {
    try {
      const SearchResult found =
          SearchRecursive(variables_, [this](int, int64_t) { state_.Report("recursive"); });
      result_.recursive_bytes = found.total_bytes();
      Offer(found);
    } catch (const std::runtime_error&) {
      // Too densely connected for elimination: message passing will find a plan.
    } catch (const std::bad_alloc&) {
      // Message passing will find a plan.
    }
  }

  void OfferGivenPlan() {
    if (offered_ == nullptr) return;
    const JoinedRounds separate(grid_.num_rounds(), 1);
    TryOffer([&] { return RefinePlan(variables_, hints_, *offered_, separate); });
    if (start_ && limits_.refines_start) refined_bytes_ = start_->bytes;
  }

  bool Offer(const SearchResult& found) { return Offer(found.assignment, found.total_bytes()); }

  /*! \brief Start from this plan if it is better than those before it. Return true if it is. */
  bool Offer(const Assignment& plan, int64_t bytes) {
    if (start_ && bytes >= start_->bytes) return false;
    start_ = {plan, bytes};
    state_.SetStart(bytes);
    return true;
  }

  /*! \brief Bound all plans by classes, and look for plans on coarse grids: round by round on all
   * grids, and exactly on the most promising until the gap is narrow. */
  void SearchOnLargeGrid() {
    constexpr double kShare = 0.2;        // of the remaining effort, for each exact search
    constexpr double kCoarseShare = 0.6;  // of the whole effort
    constexpr int64_t kNarrow = 1000;     // the gap is 1 / kNarrow of the bound
    const bool is_refined = limits_.refines_start && start_;
    std::vector<CoarsePlan> plans = is_refined ? std::vector<CoarsePlan>() : SearchCoarseGrids();
    if (start_) SearchByClasses();
    for (const CoarsePlan& plan : plans) {
      if (IsNarrow(kNarrow) || state_.IsOver(kCoarseShare)) break;
      TryOnCoarseGrid(plan.joined, [&](const WorkerGrid& coarse, const Hints& hints) {
        return ImprovePart(coarse, hints, plan.plan, kShare, "coarse grids");
      });
    }
    if (start_ && state_.bound() == 0) SearchByClasses();
  }

  /*! \brief Search round by round on coarse grids: all, or the finest if time is short. Return
   * them, the best first. */
  std::vector<CoarsePlan> SearchCoarseGrids() {
    constexpr double kShare = 0.4;  // of the whole effort
    constexpr double kAdditionsPerChoice = 8e4;
    const double seconds =
        kAdditionsPerChoice * kMostJoined * variables_.size() / kAdditionsPerSecond;
    std::vector<JoinedRounds> grids = ListCoarseGrids(grid_, kMostJoined);
    const double affordable = kShare * limits_.seconds / seconds;
    if (static_cast<double>(grids.size()) > affordable) {
      std::stable_sort(
          grids.begin(), grids.end(),
          [](const JoinedRounds& a, const JoinedRounds& b) { return a.size() < b.size(); });
      grids.erase(grids.begin(), grids.end() - static_cast<std::ptrdiff_t>(affordable));
    }
    std::vector<CoarsePlan> plans;
    for (const JoinedRounds& joined : grids) {
      state_.AddSeconds(seconds);
      state_.Report("coarse grids");
      plans.push_back({joined, {}, std::numeric_limits<int64_t>::max()});
      TryOnCoarseGrid(joined, [&](const WorkerGrid& coarse, const Hints& hints) {
        plans.back().plan = SearchRecursive(SearchVariables(variables_, coarse, hints), {});
        plans.back().bytes = plans.back().plan.total_bytes();
        return plans.back().plan;
      });
    }
    std::stable_sort(plans.begin(), plans.end(),
                     [](const CoarsePlan& a, const CoarsePlan& b) { return a.bytes < b.bytes; });
    return plans;
  }

  /*! \brief Offer the plan of search(coarse grid, hints) for the grid. */
  template <typename Search>
  void TryOnCoarseGrid(const JoinedRounds& joined, const Search& search) {
    const std::optional<Hints> hints = JoinHints(hints_, joined);
    if (!hints) return;
    TryOffer([&] {
      SearchResult found = search(JoinRounds(grid_, joined), *hints);
      if (start_ && found.total_bytes() >= start_->bytes) return found;  // is not taken
      return RefinePlan(variables_, hints_, found.assignment, joined);
    });
  }

  /*! \brief Offer the plan find(), if there is one. */
  template <typename Find>
  void TryOffer(const Find& find) {
    try {
      Offer(find());
    } catch (const std::runtime_error&) {
      // Too densely connected.
    } catch (const std::invalid_argument&) {
      // Hints cannot be met.
    } catch (const std::bad_alloc&) {
      // Too large.
    }
  }

  /*! \brief Improve a plan with fewer rounds by an exact search, in a share of the remaining
   * effort. If `plan` is empty, find one. */
  SearchResult ImprovePart(const WorkerGrid& grid, const Hints& hints, const SearchResult& plan,
                           double share, const char* stage) {
    ExactLimits limits = state_.MakeLimits(share);
    limits.max_fine_rounds = kOnlyFine;
    const ExactProgress report = [&](const std::string&, int64_t, int64_t) {
      state_.Report(stage);
    };
    const SearchVariables variables(variables_, grid, hints);
    ExactSearch search(variables, hints, limits, report);
    ExactResult found = plan.round_bytes.empty() ? search.Run() : search.Improve(plan);
    state_.AddSeconds(found.spent_seconds);
    return std::move(found.plan);
  }

  /*! \brief Improve the plan two rounds at a time, without tables over all rounds. */
  void PolishPlan() {
    constexpr int64_t kNarrow = 500;
    // The search that found a plan to refine has improved it in this way.
    if (grid_.num_rounds() <= limits_.max_fine_rounds || start_->bytes == refined_bytes_) return;
    ForEachTwoRounds([this] { return FindKindsOfRounds(); },
                     [this] { return IsNarrow(kNarrow) || state_.IsOver(); },
                     [this](int first, int second) { return ImproveTwoRounds(first, second); });
  }

  /*! \brief Number rounds of one factor and price in which the best plan chooses the same. */
  std::vector<int> FindKindsOfRounds() const {
    const std::vector<std::vector<int>> choices = variables_.ChoicesOf(start_->plan);
    std::map<std::tuple<int64_t, double, double, std::vector<int>>, int> known;
    std::vector<int> kinds;
    for (int round = 0; round < grid_.num_rounds(); ++round) {
      std::vector<int> chosen;
      for (const std::vector<int>& of_variable : choices) chosen.push_back(of_variable[round]);
      const double price = grid_.has_prices() ? grid_.price(round) : 1;
      const auto [found, is_new] = known.try_emplace(
          {grid_.factor(round), price, grid_.latency(round), std::move(chosen)}, round);
      kinds.push_back(found->second);
    }
    return kinds;
  }

  bool ImproveTwoRounds(int first, int second) {
    constexpr double kShare = 0.2;  // of the remaining effort
    const std::vector<std::vector<int>> choices = variables_.ChoicesOf(start_->plan);
    const std::vector<int> numbers = variables_.NumberSequences();
    std::map<std::pair<int, std::vector<int>>, SharedSequences> known;
    std::vector<SharedSequences> variants;
    for (int v = 0; v < variables_.size(); ++v) {
      SharedSequences& of_variable = known[{numbers[v], choices[v]}];
      if (of_variable == nullptr) {
        of_variable = std::make_shared<std::vector<std::vector<int>>>(
            variables_.ListVariants(v, choices[v], first, second));
      }
      variants.push_back(of_variable);
    }
    try {
      const std::optional<FoundPlan> found =
          SearchAmong(variables_, std::move(variants), *start_, kShare, "two rounds", &state_);
      return found && Offer(found->plan, found->bytes);
    } catch (const std::length_error&) {
      return false;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  /*! \brief Count the effort and memory of the tables, without which nothing can be proved. */
  void CountTables() {
    const auto entries = static_cast<double>(problem_.num_entries);
    state_.Spend(CountAdditions(grid_) * entries);
    state_.Hold(std::max(problem_.held_bytes,
                         sizeof(int64_t) * entries + CountTableBytes(problem_.pairwise)));
  }

  void SearchByClasses() {
    const ClassSearchResult found = SearchClasses(variables_, hints_, *start_, &state_);
    state_.RaiseBound(found.lower_bound);
    if (found.plan) Offer(found.plan->plan, found.plan->bytes);
  }

  void Solve() {
    std::vector<int> start;
    if (start_) start = FindValues(problem_, variables_, start_->plan);
    SolveProblem(start, &problem_, &state_);
  }

  ExactResult MakeResult() {
    Assignment plan = state_.has_plan() ? ToAssignment(problem_, variables_, state_.values())
                                        : std::move(start_->plan);
    const PlanCost cost = EvaluatePlan(graph_, grid_, plan);
    // Operators of a group share fetches if their choices are equal by coincidence. Tables cannot
    // express this, so plans may cost less than counted.
    const bool is_counted = !MayShareByChance(graph_);
    if (state_.has_plan() && is_counted && cost.total_bytes != state_.bytes()) {
      throw std::logic_error(Text("the plan costs ", cost.total_bytes,
                                  " bytes, and the search counted ", state_.bytes()));
    }
    result_.plan.assignment = std::move(plan);
    result_.plan.round_bytes = cost.round_bytes;
    result_.lower_bound = is_counted ? std::min(state_.bound(), cost.total_bytes) : 0;
    result_.held_bytes = state_.held_bytes();
    result_.num_sweeps = state_.num_sweeps();
    result_.is_optimal = is_counted && (state_.is_optimal() || state_.bound() >= cost.total_bytes);
    result_.spent_seconds = limits_.seconds - state_.SecondsLeft();
    return std::move(result_);
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const Hints& hints_;
  const ExactLimits& limits_;
  const Assignment* offered_;
  SearchVariables variables_;
  ExactState state_;
  ExactProblem problem_;
  std::optional<FoundPlan> start_;  // the best plan before the search of all rounds
  int64_t refined_bytes_ = -1;      // cost of the plan that is refined, or -1
  ExactResult result_;
};

/*! \brief Return the better plan and the higher bound of two searches. */
ExactResult TakeBetter(ExactResult first, ExactResult second) {
  if (second.plan.total_bytes() < first.plan.total_bytes()) first.plan = std::move(second.plan);
  const int64_t cost = first.plan.total_bytes();
  first.lower_bound = std::min(std::max(first.lower_bound, second.lower_bound), cost);
  first.is_optimal = first.is_optimal || second.is_optimal || first.lower_bound == cost;
  first.held_bytes = std::max(first.held_bytes, second.held_bytes);
  first.num_sweeps += second.num_sweeps;
  first.spent_seconds += second.spent_seconds;
  return first;
}

/*! \brief Return true if other plans are hardly better than this one, or than a plan of
 * `known_bytes`. */
bool IsNearlyOptimal(const ExactResult& result, int64_t known_bytes) {
  constexpr int64_t kNarrow = 1000;
  const int64_t gap = std::min(result.plan.total_bytes(), known_bytes) - result.lower_bound;
  return result.is_optimal || gap <= result.lower_bound / kNarrow;
}

}  // namespace

ExactResult SearchExact(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                        const ExactLimits& limits, const ExactProgress& progress,
                        const Assignment* start) {
  constexpr double kSecondShare = 0.5;  // effort of a search by classes after one without
  const bool has_second = grid.num_rounds() > 1 && grid.num_rounds() <= limits.max_fine_rounds &&
                          limits.max_fine_rounds < kOnlyFine;
  const SearchVariables variables(graph, grid, hints);
  const auto begin = [&](const ExactLimits& effort) {
    return ExactSearch(variables, hints, effort, progress, start);
  };
  ExactLimits by_classes = limits;
  by_classes.max_fine_rounds = 0;
  std::optional<ExactResult> first;
  try {
    first = begin(limits).Run();
  } catch (const std::runtime_error&) {
    if (!has_second) throw;
    return begin(by_classes).Run();
  }
  if (!has_second || IsNearlyOptimal(*first, limits.known_bytes)) return *std::move(first);
  by_classes.seconds *= kSecondShare;
  by_classes.refines_start = true;
  try {
    return TakeBetter(*first, begin(by_classes).Improve(first->plan));
  } catch (const std::runtime_error&) {
    return *std::move(first);
  } catch (const std::bad_alloc&) {
    return *std::move(first);
  }
}

}  // namespace tofu
