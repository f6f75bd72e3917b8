/*!
 * \file exact_bound.cc
 * \brief Rounds of bounding and pruning on the contracted problem.
 */
#include "core/search/exact_bound.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/bounds/alike.h"
#include "core/bounds/message_passing.h"
#include "core/bounds/min_sum.h"
#include "core/bounds/mini_buckets.h"
#include "core/elimination/contract.h"
#include "core/search/polish.h"

namespace tofu {

namespace {

using Costs = std::vector<std::vector<int64_t>>;  // by variable and value

struct TimeIsUp {};

double CountEntries(const PairwiseProblem& problem) {
  double entries = 0;
  for (const PairTable& pair : problem.pairs)
    entries += static_cast<double>(pair.bytes->entries.size());
  return entries;
}

/*! \brief Values that cost at most `most`, and the cheapest of each variable. */
KeptValues KeepBelow(const Costs& costs, int64_t most) {
  KeptValues kept;
  for (const std::vector<int64_t>& of_variable : costs) {
    kept.emplace_back();
    const int64_t least = std::max(most, *std::min_element(of_variable.begin(), of_variable.end()));
    for (size_t x = 0; x < of_variable.size(); ++x) {
      if (of_variable[x] <= least) kept.back().push_back(static_cast<int>(x));
    }
  }
  return kept;
}

class BoundSearch {
 public:
  BoundSearch(const ExactProblem& problem, Part* part, ExactState* state)
      : problem_(problem),
        part_(*part),
        state_(*state),
        core_(Contract(part->problem, kContraction)),
        messages_(
            std::make_unique<MessagePassing>(core_.problem, std::vector<Star>(), OrderCore())) {}

  void Run() {
    if (SweepAndPrune() || BoundInRounds()) return;
    if (!IsClosed()) Polish(problem_, part_, &state_);
    if (IsClosed()) state_.Prove();
  }

 private:
  static constexpr double kShare = 0.7;        // of the effort; searches for plans get the rest
  static constexpr double kContraction = 1e6;  // operations per table
  // Additions of a sweep, forward and back:
  static constexpr double kAdditionsPerEntry = 8;
  static constexpr double kAdditionsPerPair = 4e3;
  // Operations for a plan among the cheapest values, after sweeps and after mini-buckets.
  static constexpr double kQuickTrial = 5e6;
  static constexpr double kTrial = 1e8;

  /*! \brief Return true if no plan costs less. Ties may be open. */
  bool IsClosed() const { return state_.bound() >= state_.bytes(); }

  /*! \brief Bound by mini-buckets of growing size, from three variables, or fewer if those take too
   * long. A size is repeated while it prunes much. Return true if the best plan is proved. */
  bool BoundInRounds() {
    constexpr double kMostEntries = size_t{1} << 24;
    const double median = FindMedianDomain();
    const auto size_of = [&](double variables) {
      return std::min(std::pow(median, variables), kMostEntries);
    };
    double variables = 3;
    while (variables > 2 && size_of(variables) * median * core_.problem.size() >
                                state_.SecondsLeft() * kAdditionsPerSecond)
      variables -= 0.5;
    for (int radius = 2;; radius += 2, variables += 0.5) {
      while (true) {
        if (state_.IsOver(kShare) || IsClosed()) return false;
        const size_t before = CountKept(KeepAll(core_.problem));
        if (BoundByTables(static_cast<size_t>(size_of(variables)), radius)) return true;
        if (state_.IsOver(kShare)) return false;
        if (SweepAndPrune()) return true;
        if (4 * CountKept(KeepAll(core_.problem)) >= 3 * before) break;
      }
      if (size_of(variables) == kMostEntries) return false;
    }
  }

  double FindMedianDomain() const {
    std::vector<size_t> sizes = {2};
    for (const std::vector<Weight>& unary : core_.problem.unary) sizes.push_back(unary.size());
    std::nth_element(sizes.begin(), sizes.begin() + sizes.size() / 2, sizes.end());
    return static_cast<double>(std::max<size_t>(sizes[sizes.size() / 2], 2));
  }

  bool SweepAndPrune() {
    constexpr int kSweeps = 10;
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      if (sweep > 0 && state_.IsOver(kShare)) break;
      messages_->Sweep();
      state_.Spend(kAdditionsPerEntry * CountEntries(core_.problem) +
                   kAdditionsPerPair * static_cast<double>(core_.problem.pairs.size()));
      state_.CountSweep();
    }
    Costs reduced;
    const int64_t bound = core_.constant + messages_->ComputeBound(&reduced);
    OfferCore(messages_->RoundGreedily());
    return Use(reduced, bound, kQuickTrial, "bound");
  }

  bool BoundByTables(size_t max_entries, int radius) {
    if (CountEntries(core_.problem) > kMaxMiniBucketEntries / 4) return false;
    PairwiseProblem spread;
    MessagePassing even = *messages_;
    even.Average(FindAlike(core_.problem, radius));
    const int64_t spread_bytes = core_.constant + even.Spread(&spread);
    const double bytes = CountTableBytes(part_.problem) + CountTableBytes(spread);
    const auto pause = [&](double additions, size_t entries) {
      state_.Spend(additions);
      state_.Hold(bytes + sizeof(Cost) * static_cast<double>(entries));
      state_.Report("mini-buckets");
      if (state_.IsOver(kShare)) throw TimeIsUp();
    };
    try {
      const MiniBucketBound found =
          BoundByMiniBuckets(spread, state_.bytes() - spread_bytes, max_entries, pause);
      return Use(found.excess, spread_bytes + found.bytes, kTrial, "mini-buckets");
    } catch (const TimeIsUp&) {
      return false;
    } catch (const std::length_error&) {
      return false;  // the bound from smaller tables is used
    }
  }

  /*! \brief Use a bound and the least cost of each value above it. Return true if the best plan is
   * proved. */
  bool Use(const Costs& excess, int64_t bound, double trial, const char* stage) {
    state_.RaiseBound(bound);
    state_.Report(stage);
    if (TryCheapest(excess, bound, trial)) return true;
    const KeptValues kept = KeepBelow(excess, state_.bytes() - bound);
    if (CountKept(kept) == CountKept(KeepAll(core_.problem))) return false;
    Prune(kept);
    if (state_.Solve(part_) < 0) return false;
    state_.Prove();
    return true;
  }

  void Prune(const KeptValues& kept) {
    part_ = Select(part_, KeepInPart(kept));
    core_.problem = Restrict(core_.problem, kept);
    messages_ = std::make_unique<MessagePassing>(core_.problem, std::vector<Star>(), OrderCore(),
                                                 *messages_, kept);
    state_.Report("pruning");
  }

  /*!
   * \brief Solve the problem over the cheapest values, as many as elimination can handle.
   *
   * Every other plan contains a value that costs more than bound + most. If the best plan among the
   * cheapest values costs at most bound + most, it is optimal. Otherwise it is a known plan, and
   * the bound rises.
   */
  bool TryCheapest(const Costs& excess, int64_t bound, double trial) {
    int64_t low = 0;
    for (const std::vector<int64_t>& costs : excess)
      low = std::max(low, *std::min_element(costs.begin(), costs.end()));
    state_.RaiseBound(bound + low);
    int64_t most = std::max(low, state_.bytes() - bound);
    KeptValues cheapest = KeepBelow(excess, most);
    while (!state_.Fits(state_.Estimate(core_.problem, cheapest), trial)) {
      if (most == 0) return false;
      // With `most` below `low`, nothing is proved, but a plan may be found.
      most = most > low ? low + (most - low) / 4 : most / 2;
      cheapest = KeepBelow(excess, most);
      KeepBest(&cheapest);
    }
    const int64_t bytes = state_.Solve(Select(part_, KeepInPart(cheapest)), 2 * trial);
    if (bytes < 0) return false;
    state_.RaiseBound(std::min(bytes, bound + most + 1));
    if (bytes > bound + most) return false;
    state_.Prove();
    return true;
  }

  /*! \brief Add the values of the best plan. */
  void KeepBest(KeptValues* of_core) const {
    const std::vector<int> best = FindPositions(part_, state_.values());
    for (size_t v = 0; v < of_core->size(); ++v) {
      std::vector<int>& values = (*of_core)[v];
      const int value = best[core_.variables[v]];
      const auto place = std::lower_bound(values.begin(), values.end(), value);
      if (place == values.end() || *place != value) values.insert(place, value);
    }
  }

  /*! \brief The variables of the contracted problem in the order of the graph. */
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

  /*! \brief Convert kept values of the contracted problem to the part, whose other variables keep
   * all values. */
  KeptValues KeepInPart(const KeptValues& of_core) const {
    KeptValues kept = KeepAll(part_.problem);
    for (size_t v = 0; v < of_core.size(); ++v) kept[core_.variables[v]] = of_core[v];
    return kept;
  }

  /*! \brief Offer the best plan with these values of the contracted problem. */
  void OfferCore(const std::vector<int>& values) {
    const int64_t bytes = core_.constant + WeightBytes(EvaluatePairwise(core_.problem, values));
    if (state_.has_plan() && bytes >= state_.bytes()) return;
    KeptValues kept;
    for (int value : values) kept.push_back({value});
    const Part part = Select(part_, KeepInPart(kept));
    state_.Offer(part, EliminatePairwise(part.problem, kMaxTableEntries).values);  // has width 2
  }

  const ExactProblem& problem_;
  Part& part_;
  ExactState& state_;
  Contraction core_;
  std::unique_ptr<MessagePassing> messages_;
};

}  // namespace

void SearchByBounds(const ExactProblem& problem, Part* part, ExactState* state) {
  BoundSearch(problem, part, state).Run();
}

}  // namespace tofu
