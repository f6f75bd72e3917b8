/*!
 * \file exact_state.cc
 */
#include "core/search/exact_state.h"

#include <utility>

#include "core/elimination/dominance.h"

namespace tofu {

namespace {

/*! \brief Additions that an operation of elimination counts for: it adds 128 bits per table, at any
 * address. */
constexpr double kAdditionsPerOperation = 40;

/*! \brief Bytes of an elimination table per entry: weight and best value. */
constexpr double kBytesPerEntry = 18;

}  // namespace

double CountTableBytes(const PairwiseProblem& problem) {
  return static_cast<double>(CountDistinctEntries(problem) * sizeof(int64_t));
}

ExactState::ExactState(const ExactLimits& limits, const ExactProgress& progress)
    : limits_(limits), progress_(progress), started_(std::clock()) {}

double ExactState::MostProcessorSeconds() const {
  constexpr double kProcessors = 2;
  return limits_.processor_seconds > 0 ? limits_.processor_seconds
                                       : kMostSlowness * kProcessors * limits_.seconds;
}

double ExactState::ProcessorSeconds() const {
  return static_cast<double>(std::clock() - started_) / CLOCKS_PER_SEC;
}

bool ExactState::IsOver(double share) const {
  return bound_ >= limits_.known_bytes || spent_ >= share * limits_.seconds ||
         ProcessorSeconds() > share * MostProcessorSeconds();
}

ExactLimits ExactState::MakeLimits(double share) const {
  constexpr double kLeast = 1e-6;
  return {share * std::max(SecondsLeft(), 0.0), limits_.max_table_entries,
          std::max(MostProcessorSeconds() - ProcessorSeconds(), kLeast), limits_.max_bytes};
}

void ExactState::Report(const char* stage) const {
  if (progress_) progress_(stage, has_plan() ? bytes() : start_bytes_, bound_);
}

void ExactState::Offer(const Part& part, const std::vector<int>& values) {
  if (std::find(values.begin(), values.end(), -1) != values.end()) return;
  const Weight weight = EvaluatePairwise(part.problem, values);
  if (has_plan() && weight >= weight_) return;
  weight_ = weight;
  values_ = values;
  for (size_t v = 0; v < values.size(); ++v) values_[v] = part.originals[v][values[v]];
}

void ExactState::Offer(const std::vector<int>& values, Weight weight) {
  if (has_plan() && weight >= weight_) return;
  weight_ = weight;
  values_ = values;
}

void ExactState::TakeEffort(const ExactState& other) {
  spent_ += other.spent_;
  num_sweeps_ += other.num_sweeps_;
  Hold(static_cast<double>(other.held_bytes_));
}

void ExactState::RaiseBound(int64_t bytes) { bound_ = std::max(bound_, bytes); }

EliminationEstimate ExactState::Estimate(const PairwiseProblem& problem, const KeptValues& kept) {
  Spend(kAdditionsPerVariable * problem.size());
  return EstimateElimination(problem, kept);
}

bool ExactState::Fits(const EliminationEstimate& estimate, double most_operations) const {
  constexpr double kLeast = 0.05;  // seconds of work for eliminations, even if no time is left
  const double operations =
      std::min(most_operations,
               std::max(SecondsLeft(), kLeast) * kAdditionsPerSecond / kAdditionsPerOperation);
  return estimate.largest_table <= static_cast<double>(limits_.max_table_entries) &&
         kBytesPerEntry * estimate.entries <= limits_.max_bytes &&
         estimate.operations <= operations;
}

int64_t ExactState::Solve(const Part& part, double most_operations) {
  EliminationEstimate estimate = Estimate(part.problem, part.originals);
  if (!Fits(estimate, most_operations)) return -1;
  Report("elimination");
  Spend(kAdditionsPerOperation * estimate.operations);
  Hold(CountTableBytes(part.problem) + kBytesPerEntry * estimate.entries);
  const EliminationResult solved =
      EliminatePairwise(part.problem, limits_.max_table_entries, std::move(estimate.order));
  Offer(part, solved.values);
  return WeightBytes(solved.weight);
}

void ExactState::Prove() {
  bound_ = bytes();
  is_optimal_ = true;
}

void ExactState::DropDominated(Part* part) {
  while (sizeof(int64_t) * CountDominanceEntries(part->problem) <= limits_.max_bytes) {
    const Dominance dominance = FindDominated(part->problem);
    Spend(dominance.additions);
    Hold(CountTableBytes(part->problem) + 8 * static_cast<double>(dominance.num_entries));
    if (!dominance.is_reduced) break;
    for (size_t v = 0; v < values_.size(); ++v) {
      const std::vector<int>& originals = part->originals[v];
      const auto place = std::lower_bound(originals.begin(), originals.end(), values_[v]);
      values_[v] = originals[dominance.stand_ins[v][place - originals.begin()]];
    }
    *part = Select(*part, dominance.kept);
    Report("dominance");
  }
  if (has_plan()) weight_ = EvaluatePairwise(part->problem, FindPositions(*part, values_));
}

}  // namespace tofu
