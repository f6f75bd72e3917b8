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
#include "dominance.h"
#include "exact_problem.h"
#include "pairwise.h"

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

  /*! \brief Sweeps, with pruning and trial eliminations after every few, until the best plan is
   * proved, nothing moves, or the time is over. */
  void BoundAndPrune() {
    constexpr int kSweeps = 10;
    constexpr int kMaxIdleRounds = 12;
    auto messages = std::make_unique<MessagePassing>(part_.problem, problem_.order);
    int idle_rounds = 0;
    int64_t previous = 0;
    while (SecondsLeft() > 0 && idle_rounds < kMaxIdleRounds) {
      for (int sweep = 0; sweep < kSweeps; ++sweep) messages->Sweep();
      result_.num_sweeps += kSweeps;
      std::vector<std::vector<int64_t>> reduced;
      const int64_t bound = messages->ComputeBound(&reduced);
      bound_ = std::max(bound_, bound);
      Offer(part_, messages->RoundGreedily());
      Report("bound");
      KeptValues kept = KeepBelow(reduced, BestBytes() - bound);
      if (Count(kept) < CountValues(part_.problem)) {
        Prune(kept, &messages);
        if (SolvePart(part_)) return Prove();
        idle_rounds = 0;
      } else if (TryCheapest(reduced, bound)) {
        return Prove();
      }
      idle_rounds = bound - previous > bound / 20000 ? 0 : idle_rounds + 1;
      previous = std::max(previous, bound);
    }
    if (bound_ >= BestBytes()) Prove();
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

  void Prune(const KeptValues& kept, std::unique_ptr<MessagePassing>* messages) {
    Part pruned = Select(part_, kept);
    DropDominated(&pruned, &values_);
    KeptValues left;  // as positions in part_
    for (size_t v = 0; v < kept.size(); ++v) {
      left.emplace_back();
      for (int original : pruned.originals[v]) {
        const auto& of_part = part_.originals[v];
        left.back().push_back(static_cast<int>(
            std::lower_bound(of_part.begin(), of_part.end(), original) - of_part.begin()));
      }
    }
    part_ = std::move(pruned);
    *messages = std::make_unique<MessagePassing>(part_.problem, problem_.order, **messages, left);
  }

  /*!
   * \brief Solves the problem over the values of least reduced cost, as many as elimination can
   * take.
   *
   * A plan with any other value costs more than bound + most: where the best plan among these costs
   * no more than that, it is the best of all; else it is at least a plan, and the bound rises.
   */
  bool TryCheapest(const std::vector<std::vector<int64_t>>& reduced, int64_t bound) {
    constexpr int kTrials = 6;
    int64_t low = 0;
    for (const std::vector<int64_t>& costs : reduced)
      low = std::max(low, *std::min_element(costs.begin(), costs.end()));
    bound_ = std::max(bound_, bound + low);
    int64_t high = BestBytes() - bound;
    std::optional<Part> largest;
    int64_t most = -1;
    for (int trial = 0; trial < kTrials && low <= high; ++trial) {
      const int64_t middle = trial == 0 ? low : low + (high - low) / 2;
      Part part = Select(part_, KeepBelow(reduced, middle));
      DropDominated(&part, nullptr);
      if (Fits(part.problem)) {
        largest = std::move(part);
        most = middle;
        low = middle + 1;
      } else {
        high = middle - 1;
      }
    }
    if (!largest) return false;
    if (!SolvePart(*largest)) return false;
    bound_ = std::max(bound_, std::min(part_bytes_, bound + most + 1));
    return part_bytes_ <= bound + most;
  }

  ExactResult MakeResult() {
    if (!values_.empty()) assignment_ = ToAssignment(graph_, problem_, variables_, values_);
    const PlanCost cost = EvaluatePlan(graph_, grid_, *assignment_);
    if (!values_.empty() && cost.total_bytes != BestBytes()) {
      throw std::logic_error("the plan costs " + std::to_string(cost.total_bytes) +
                             " bytes, and the search counted " + std::to_string(BestBytes()));
    }
    result_.plan.assignment = std::move(*assignment_);
    result_.plan.step_bytes = cost.step_bytes;
    result_.plan.num_variables = variables_.size();
    result_.plan.num_incidences = problem_.num_incidences;
    result_.plan.num_tables = problem_.num_tables;
    result_.lower_bound = std::min(bound_, cost.total_bytes);
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
