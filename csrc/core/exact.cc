/*!
 * \file exact.cc
 * \brief Shrinking, bounding and solving the whole choice.
 */
#include "exact.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bound.h"
#include "contract.h"
#include "dominance.h"
#include "exact_problem.h"
#include "pairwise.h"
#include "sharing.h"

namespace tofu {

namespace {

/*! \brief A problem whose values are some of those of the whole one. */
struct Part {
  PairwiseProblem problem;
  KeptValues originals;  // by variable and value: the value of the whole problem
};

Part Select(const Part& part, const KeptValues& kept) {
  Part selected{Restrict(part.problem, kept), kept};
  for (size_t v = 0; v < kept.size(); ++v) {
    for (int& value : selected.originals[v]) value = part.originals[v][value];
  }
  return selected;
}

/*! \brief The rate that elimination is planned with; it errs on the slow side. */
constexpr double kOperationsPerSecond = 1e8;
constexpr double kMaxOperations = 3e9;

class ExactSearch {
 public:
  ExactSearch(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
              const ExactLimits& limits, const ExactProgress& progress)
      : graph_(graph),
        grid_(grid),
        hints_(hints),
        limits_(limits),
        progress_(progress),
        variables_(graph, grid, hints),
        started_(std::chrono::steady_clock::now()) {}

  ExactResult Run() {
    FindRecursivePlan();
    try {
      problem_ =
          BuildExactProblem(graph_, grid_, variables_, Ceiling(), [this] { Report("tables"); });
      Solve();
    } catch (const std::length_error& error) {
      if (!assignment_) throw std::runtime_error(error.what());
    }
    return MakeResult();
  }

 private:
  int64_t Ceiling() const { return assignment_ ? result_.recursive_bytes + 1 : kForbiddenBytes; }
  int64_t BestBytes() const { return WeightBytes(best_); }
  double SecondsLeft() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - started_;
    return limits_.seconds - spent.count();
  }

  void Report(const char* stage) const {
    if (progress_) progress_(stage, values_.empty() ? -1 : BestBytes(), bound_);
  }

  void FindRecursivePlan() {
    try {
      result_.plan =
          SearchRecursive(graph_, grid_, hints_, [this](int, int64_t) { Report("recursive"); });
      assignment_ = result_.plan.assignment;
      for (int64_t bytes : result_.plan.step_bytes) result_.recursive_bytes += bytes;
    } catch (const std::runtime_error&) {
      // Too densely connected for elimination: a plan is left to message passing.
    }
  }

  void Solve() {
    part_.problem = std::move(problem_.pairwise);
    for (const std::vector<Weight>& unary : part_.problem.unary) {
      part_.originals.emplace_back(unary.size());
      for (size_t x = 0; x < unary.size(); ++x) part_.originals.back()[x] = static_cast<int>(x);
    }
    result_.table_entries = CountDistinctEntries(part_.problem);
    if (assignment_) Offer(part_, FindValues(problem_, variables_, *assignment_));
    DropDominated(&part_, &values_);
    if (SolvePart(part_)) {
      Prove();
    } else {
      BoundAndPrune();
    }
  }

  /*! \brief Takes values of a part for the best plan if they are better. */
  void Offer(const Part& part, const std::vector<int>& values) {
    if (std::find(values.begin(), values.end(), -1) != values.end()) return;
    const Weight weight = EvaluatePairwise(part.problem, values);
    if (!values_.empty() && weight >= best_) return;
    best_ = weight;
    values_ = values;
    for (size_t v = 0; v < values.size(); ++v) values_[v] = part.originals[v][values[v]];
  }

  /*! \brief Drops dominated values until there are none; values that dominate them take their place
   * in the best plan. */
  void DropDominated(Part* part, std::vector<int>* values) {
    while (true) {
      const Dominance dominance = FindDominated(part->problem);
      if (!dominance.is_reduced) break;
      for (size_t v = 0; values != nullptr && v < values->size(); ++v) {
        const auto& originals = part->originals[v];
        const auto place = std::lower_bound(originals.begin(), originals.end(), (*values)[v]);
        (*values)[v] = originals[dominance.stand_ins[v][place - originals.begin()]];
      }
      *part = Select(*part, dominance.kept);
      Report("dominance");
    }
    if (values != nullptr && !values->empty())
      best_ = EvaluatePairwise(part->problem, Positions(*part, *values));
  }

  /*! \brief Values of the whole problem as values of a part that holds them. */
  static std::vector<int> Positions(const Part& part, const std::vector<int>& values) {
    std::vector<int> positions;
    for (size_t v = 0; v < values.size(); ++v) {
      const auto& originals = part.originals[v];
      positions.push_back(static_cast<int>(
          std::lower_bound(originals.begin(), originals.end(), values[v]) - originals.begin()));
    }
    return positions;
  }

  bool Fits(const PairwiseProblem& problem) const {
    const EliminationEstimate estimate = EstimateElimination(problem);
    const double operations =
        std::min(kMaxOperations, kOperationsPerSecond * std::max(SecondsLeft(), 0.1));
    return estimate.largest_table <= static_cast<double>(limits_.max_table_entries) &&
           estimate.operations <= operations;
  }

  /*! \brief Eliminates a part if it fits; its best plan is then known. */
  bool SolvePart(const Part& part) {
    if (!Fits(part.problem)) return false;
    Report("elimination");
    const EliminationResult solved = EliminatePairwise(part.problem, limits_.max_table_entries);
    result_.plan.largest_table = std::max(result_.plan.largest_table, solved.largest_table);
    part_bytes_ = WeightBytes(solved.weight);
    Offer(part, solved.values);
    return true;
  }

  void Prove() {
    bound_ = BestBytes();
    result_.is_optimal = true;
  }

  /*! \brief Sweeps over the contracted problem, with pruning and trial eliminations after every
   * few, until the best plan is proved, nothing moves, or the time is over. */
  void BoundAndPrune() {
    constexpr int kSweeps = 10;
    constexpr int kMaxIdleRounds = 12;
    constexpr int kSweepsBeforePolish = 30;
    constexpr double kContraction = 1e6;  // operations for one table
    core_ = Contract(part_.problem, kContraction);
    auto messages = std::make_unique<MessagePassing>(core_.problem, OrderCore());
    int idle_rounds = 0;
    do {
      for (int sweep = 0; sweep < kSweeps; ++sweep) messages->Sweep();
      result_.num_sweeps += kSweeps;
      std::vector<std::vector<int64_t>> reduced;
      const int64_t bound = core_.constant + messages->ComputeBound(&reduced);
      const bool is_idle = bound - bound_ <= bound / 20000;
      bound_ = std::max(bound_, bound);
      OfferCore(messages->RoundGreedily());
      Report("bound");
      if (result_.num_sweeps == kSweepsBeforePolish) Polish();
      const KeptValues kept = KeepBelow(reduced, BestBytes() - bound);
      idle_rounds = is_idle ? idle_rounds + 1 : 0;
      if (Count(kept) < CountValues(core_.problem)) {
        PruneCore(kept, &messages);
        if (SolvePart(part_)) return Prove();
      } else if (TryCheapest(reduced, bound)) {
        return Prove();
      }
    } while (SecondsLeft() > 0 && idle_rounds < kMaxIdleRounds && bound_ < BestBytes());
    if (bound_ >= BestBytes()) Prove();
  }

  /*! \brief Improves the best plan two steps of the recursion at a time, all variables at once,
   * until no two of them find anything. */
  void Polish() {
    const int steps = grid_.num_steps();
    if (values_.empty() || steps < 3) return;
    int idle = 0;
    while (true) {
      for (int first = 0; first < steps; ++first) {
        for (int second = first + 1; second < steps; ++second) {
          if (SecondsLeft() <= 0 || idle == steps * (steps - 1) / 2) return;
          const Weight before = best_;
          SolvePart(Select(part_, FreeSteps(first, second)));
          idle = best_ < before ? 0 : idle + 1;
        }
      }
    }
  }

  /*! \brief Values that take what the best plan takes at all steps but two. */
  KeptValues FreeSteps(int first, int second) const {
    KeptValues kept;
    for (size_t v = 0; v < values_.size(); ++v) {
      const std::vector<std::vector<int>>& sequences = *problem_.sequences[v];
      std::vector<int> best = sequences[values_[v]];
      kept.emplace_back();
      for (size_t x = 0; x < part_.originals[v].size(); ++x) {
        const std::vector<int>& choices = sequences[part_.originals[v][x]];
        best[first] = choices[first];
        best[second] = choices[second];
        if (choices == best) kept.back().push_back(static_cast<int>(x));
      }
    }
    return kept;
  }

  /*! \brief Adds the values of the best plan. */
  void KeepBest(KeptValues* of_core) const {
    const std::vector<int> best = Positions(part_, values_);
    for (size_t v = 0; v < of_core->size(); ++v) {
      std::vector<int>& values = (*of_core)[v];
      const int value = best[core_.variables[v]];
      const auto place = std::lower_bound(values.begin(), values.end(), value);
      if (place == values.end() || *place != value) values.insert(place, value);
    }
  }

  /*! \brief The variables of the contracted problem as they come in the graph. */
  std::vector<int> OrderCore() const {
    std::vector<int> numbers(part_.problem.size(), -1);
    for (size_t v = 0; v < core_.variables.size(); ++v)
      numbers[core_.variables[v]] = static_cast<int>(v);
    std::vector<int> order;
    for (int v : problem_.order) {
      if (numbers[v] >= 0) order.push_back(numbers[v]);
    }
    return order;
  }

  /*! \brief Values of the contracted problem as values of the part: the other variables keep all.
   */
  KeptValues KeepInPart(const KeptValues& of_core) const {
    KeptValues kept;
    for (const std::vector<Weight>& unary : part_.problem.unary) {
      kept.emplace_back(unary.size());
      for (size_t x = 0; x < unary.size(); ++x) kept.back()[x] = static_cast<int>(x);
    }
    for (size_t v = 0; v < of_core.size(); ++v) kept[core_.variables[v]] = of_core[v];
    return kept;
  }

  /*! \brief The best plan that takes these values of the contracted problem. */
  void OfferCore(const std::vector<int>& values) {
    const int64_t bytes = core_.constant + WeightBytes(EvaluatePairwise(core_.problem, values));
    if (!values_.empty() && bytes >= BestBytes()) return;
    KeptValues kept;
    for (int value : values) kept.push_back({value});
    const Part part = Select(part_, KeepInPart(kept));
    Offer(part, EliminatePairwise(part.problem, kMaxTableEntries).values);  // of width 2 at most
  }

  static size_t Count(const KeptValues& kept) {
    size_t count = 0;
    for (const std::vector<int>& values : kept) count += values.size();
    return count;
  }

  static size_t CountValues(const PairwiseProblem& problem) {
    size_t count = 0;
    for (const std::vector<Weight>& unary : problem.unary) count += unary.size();
    return count;
  }

  /*! \brief Values of a reduced cost of at most `most`, and the cheapest of each variable anyway.
   */
  static KeptValues KeepBelow(const std::vector<std::vector<int64_t>>& reduced, int64_t most) {
    KeptValues kept;
    for (const std::vector<int64_t>& costs : reduced) {
      kept.emplace_back();
      const int64_t least = std::max(most, *std::min_element(costs.begin(), costs.end()));
      for (size_t x = 0; x < costs.size(); ++x) {
        if (costs[x] <= least) kept.back().push_back(static_cast<int>(x));
      }
    }
    return kept;
  }

  void PruneCore(const KeptValues& kept, std::unique_ptr<MessagePassing>* messages) {
    part_ = Select(part_, KeepInPart(kept));
    core_.problem = Restrict(core_.problem, kept);
    *messages = std::make_unique<MessagePassing>(core_.problem, OrderCore(), **messages, kept);
    Report("pruning");
  }

  /*!
   * \brief Solves the problem over the values of least reduced cost, as many as elimination can
   * take.
   *
   * A plan with any other value costs more than bound + most: where the best plan among these costs
   * no more than that, it is the best of all; else it is at least a plan, and the bound rises.
   */
  bool TryCheapest(const std::vector<std::vector<int64_t>>& reduced, int64_t bound) {
    constexpr int kTrials = 8;
    int64_t low = 0;
    for (const std::vector<int64_t>& costs : reduced)
      low = std::max(low, *std::min_element(costs.begin(), costs.end()));
    bound_ = std::max(bound_, bound + low);
    int64_t high = BestBytes() - bound;
    int64_t most = -1;
    KeptValues cheapest;
    for (int trial = 0; trial < kTrials && low <= high; ++trial) {
      const int64_t middle = trial == 0 ? low : low + (high - low) / 2;
      KeptValues kept = KeepBelow(reduced, middle);
      KeepBest(&kept);
      if (Fits(Restrict(core_.problem, kept))) {
        cheapest = std::move(kept);
        most = middle;
        low = middle + 1;
      } else {
        high = middle - 1;
      }
    }
    if (most < 0 || !SolvePart(Select(part_, KeepInPart(cheapest)))) return false;
    bound_ = std::max(bound_, std::min(part_bytes_, bound + most + 1));
    return part_bytes_ <= bound + most;
  }

  /*! \brief Who would share fetches if all operators of a group chose alike. */
  std::vector<int> FindGroupSharers() const {
    return FindSharers(graph_, std::vector<std::vector<int>>(graph_.num_operators()));
  }

  ExactResult MakeResult() {
    if (!values_.empty()) assignment_ = ToAssignment(graph_, problem_, variables_, values_);
    const PlanCost cost = EvaluatePlan(graph_, grid_, *assignment_);
    // Operators of one group that happen to choose alike share fetches, which no pair of variables
    // sees: the plan may cost less than was counted, and so may others.
    const bool is_counted = FindBoundSharers(graph_) == FindGroupSharers();
    if (!values_.empty() && is_counted && cost.total_bytes != BestBytes()) {
      throw std::logic_error("the plan costs " + std::to_string(cost.total_bytes) +
                             " bytes, and the search counted " + std::to_string(BestBytes()));
    }
    result_.plan.assignment = std::move(*assignment_);
    result_.plan.step_bytes = cost.step_bytes;
    result_.plan.num_variables = variables_.size();
    result_.plan.num_incidences = problem_.num_incidences;
    result_.plan.num_tables = problem_.num_tables;
    result_.lower_bound = is_counted ? std::min(bound_, cost.total_bytes) : 0;
    result_.is_optimal = result_.is_optimal && is_counted;
    return std::move(result_);
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const Hints& hints_;
  const ExactLimits& limits_;
  const ExactProgress& progress_;
  SearchVariables variables_;
  std::chrono::steady_clock::time_point started_;
  ExactProblem problem_;
  Contraction core_;
  Part part_;  // what can still be part of an optimal plan
  std::optional<Assignment> assignment_;
  std::vector<int> values_;  // the best plan so far, in values of the whole problem
  Weight best_ = 0;
  int64_t bound_ = 0;
  int64_t part_bytes_ = 0;  // of the last part that was solved
  ExactResult result_;
};

}  // namespace

ExactResult SearchExact(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                        const ExactLimits& limits, const ExactProgress& progress) {
  return ExactSearch(graph, grid, hints, limits, progress).Run();
}

}  // namespace tofu
