/*!
 * \file shared_search.cc
 */
#include "core/search/shared_search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/bounds/message_passing.h"
#include "core/search/polish.h"
#include "core/search/star_variables.h"

namespace tofu {

namespace {

using Costs = std::vector<std::vector<int64_t>>;  // by variable and value

class SharedSearch {
 public:
  SharedSearch(const ExactProblem& problem, ExactState* state)
      : problem_(problem),
        state_(*state),
        part_(MakePart(problem.pairwise)),
        stars_(problem.stars),
        passing_(std::make_unique<MessagePassing>(part_.problem, stars_, problem.order)) {}

  void Run() {
    if (SweepAdditions() > state_.SecondsLeft() * kAdditionsPerSecond) return;
    BoundByStars();
    Polish();
    while (true) {
      const int64_t bound = BoundByStars();
      const size_t before = CountKept(part_.originals);
      const Weight weight = state_.weight();
      if (state_.IsOver() || SolveBelow(bound)) return;
      Prune(KeepBelow(state_.bytes() - bound));
      const bool has_moved =
          state_.weight() < weight || 10 * CountKept(part_.originals) < 9 * before;
      if (!has_moved || state_.IsOver()) return;
    }
  }

 private:
  static constexpr double kAdditionsPerStep = 6;  // not 1, because they are not contiguous

  static constexpr double kTrialShare = 0.1;       // of the remaining effort
  static constexpr double kTwoRoundsShare = 0.02;  // of the remaining effort
  static constexpr double kPolishShare = 0.3;      // of the total effort
  static constexpr double kDominanceShare = 0.05;  // of the effort of one search

  static constexpr int64_t kNarrow = 200;  // polishing stops at a gap of 1 / kNarrow of the bound
  static constexpr int64_t kTight = 5000;  // sweeps stop at a gap of 1 / kTight of the bound

  static std::vector<Star> RestrictAll(const std::vector<Star>& stars, const KeptValues& kept) {
    std::vector<Star> restricted;
    for (const Star& star : stars) restricted.push_back(RestrictStar(star, kept));
    return restricted;
  }

  double SweepAdditions() const { return kAdditionsPerStep * passing_->CountSteps(); }

  /*! \brief Sweep while this closes a good part of the gap. */
  int64_t BoundByStars() {
    constexpr int kSweeps = 5;
    constexpr int64_t kLeastPart = 10;
    int64_t bound = passing_->ComputeBound(&reduced_);
    int64_t before = bound;
    int64_t gap = 0;
    do {
      const double additions = SweepAdditions();
      for (int sweep = 0; sweep < kSweeps && (sweep == 0 || !state_.IsOver()); ++sweep) {
        passing_->Sweep();
        state_.Spend(additions);
        state_.Report("sweeps");
        state_.CountSweep();
      }
      before = bound;
      bound = passing_->ComputeBound(&reduced_);
      state_.RaiseBound(bound);
      state_.Report("bound");
      gap = state_.bytes() - bound;
      const KeptValues below = KeepBelow(gap);
      if (4 * CountKept(below) < 3 * CountKept(part_.originals)) {
        Prune(below);
        bound = std::max(bound, passing_->ComputeBound(&reduced_));
      }
    } while (!state_.IsOver() && gap > bound / kTight && (bound - before) * kLeastPart > gap);
    return bound;
  }

  /*! \brief Restrict the problem to some of its values. */
  void Prune(const KeptValues& below) {
    part_ = Select(part_, below);
    stars_ = RestrictAll(stars_, below);
    passing_ =
        std::make_unique<MessagePassing>(part_.problem, stars_, problem_.order, *passing_, below);
    state_.Report("pruning");
  }

  /*! \brief Values that cost at most `most` above the bound, and those of the best plan. */
  KeptValues KeepBelow(int64_t most) const {
    KeptValues below(part_.originals.size());
    for (size_t v = 0; v < below.size(); ++v) {
      const std::vector<int>& values = part_.originals[v];
      for (size_t x = 0; x < values.size(); ++x) {
        if (reduced_[v][x] <= most || values[x] == state_.values()[v])
          below[v].push_back(static_cast<int>(x));
      }
    }
    return below;
  }

  /*! \brief Search among the values that may be in a better plan. If these are too many, search
   * among the cheapest. Return true if nothing is left to do. */
  bool SolveBelow(int64_t bound) {
    const std::vector<StarExcess> excess = passing_->FindExcess();
    const int64_t gap = std::max<int64_t>(state_.bytes() - bound, 0);
    for (int64_t most = gap;; most -= (most + 3) / 4) {
      // A plan with any other value costs more than the cap.
      const int64_t cap = most == gap ? state_.bytes() : bound + most + 1;
      if (Search(KeepBelow(most), excess, most, cap, most == gap ? 1 : kTrialShare))
        return most == gap || state_.bound() >= state_.bytes();
      if (most == 0) return true;
    }
  }

  /*! \brief Improve the best plan two rounds at a time, with at most one shared pattern per star,
   * until nothing helps or the gap is narrow. */
  void Polish() {
    const std::vector<StarExcess> unknown(stars_.size());
    const auto is_over = [this] {
      const int64_t gap = state_.bytes() - state_.bound();
      return gap <= state_.bound() / kNarrow || state_.IsOver(kPolishShare);
    };
    if (!state_.has_plan()) return;
    const auto find_kinds = [this] { return CountUp(CountRounds(problem_)); };
    ForEachTwoRounds(find_kinds, is_over, [&](int first, int second) {
      const Weight before = state_.weight();
      Search(FreeRounds(problem_, part_.originals, state_.values(), first, second), unknown,
             state_.bytes(), 0, kTwoRoundsShare);
      return state_.weight() < before;
    });
  }

  /*! \brief Search for the best plan over some values, starting from the best plan so far, with a
   * variable for each star. Bounds from this search are valid up to `cap`; with cap 0, only plans
   * are searched.
   * \return false if the values are too many */
  bool Search(const KeptValues& below, const std::vector<StarExcess>& excess, int64_t most,
              int64_t cap, double share) {
    state_.Spend(kAdditionsPerVariable * part_.problem.size());
    const std::vector<Star> stars = RestrictAll(stars_, below);
    std::vector<StarExcess> of_stars;
    for (size_t s = 0; s < stars.size(); ++s)
      of_stars.push_back(RestrictExcess(excess[s], below[stars[s].centre]));
    Part part = Select(part_, below);
    std::vector<int> best = FindPositions(part, state_.values());
    std::optional<TabulatedStars> tabulated = TabulateStars(
        part.problem, stars, of_stars, most, cap > 0 ? kAllSets : 1, best, state_.bytes() + 1);
    if (!tabulated) return false;
    CompleteStars(stars, *tabulated, &best);
    part.problem = std::move(tabulated->problem);
    for (size_t v = part.originals.size(); v < part.problem.unary.size(); ++v) {
      part.originals.push_back(CountUp(part.problem.unary[v].size()));
    }
    SearchPart(std::move(part), best, cap, share);
    return true;
  }

  /*! \brief Additions of a dominance test. */
  static double CountDominance(const PairwiseProblem& problem) {
    double additions = 0;
    for (const ByteMatrix* table : ListTables(problem)) {
      additions += static_cast<double>(table->rows + table->columns) *
                   static_cast<double>(table->entries.size());
    }
    return additions;
  }

  void SearchPart(Part part, const std::vector<int>& best, int64_t cap, double share) {
    const ExactLimits limits = state_.MakeLimits(share);
    const ExactProgress report = [&](const std::string& stage, int64_t, int64_t bound) {
      state_.RaiseBound(std::min(bound, cap));
      state_.Report(stage.c_str());
    };
    ExactState found(limits, report);
    ExactProblem problem;
    problem.sequences = problem_.sequences;
    problem.is_by_class = problem_.is_by_class;
    problem.order = OrderWithStars();
    found.Hold(CountTableBytes(part.problem));
    found.Offer(part, best);
    if (CountDominance(part.problem) < kDominanceShare * found.SecondsLeft() * kAdditionsPerSecond)
      found.DropDominated(&part);
    if (found.Solve(part) >= 0) {
      found.Prove();
    } else {
      SearchByBounds(problem, &part, &found);
    }
    std::vector<int> values = found.values();
    values.resize(problem_.sequences.size());
    state_.TakeEffort(found);
    state_.Offer(values, EvaluateShared(problem_, values));
    state_.RaiseBound(std::min(found.bound(), cap));
    if (state_.bound() >= state_.bytes()) state_.Prove();
  }

  /*! \brief The order of variables, with each star's just after its centre. */
  std::vector<int> OrderWithStars() const {
    std::vector<std::vector<int>> after(problem_.pairwise.size());
    for (size_t s = 0; s < problem_.stars.size(); ++s)
      after[problem_.stars[s].centre].push_back(problem_.pairwise.size() + static_cast<int>(s));
    std::vector<int> order;
    for (int variable : problem_.order) {
      order.push_back(variable);
      order.insert(order.end(), after[variable].begin(), after[variable].end());
    }
    return order;
  }

  const ExactProblem& problem_;
  ExactState& state_;
  Part part_;                // values that may be in a better plan
  std::vector<Star> stars_;  // stars over these values
  std::unique_ptr<MessagePassing> passing_;
  Costs reduced_;  // costs of these values above the bound
};

}  // namespace

void SearchShared(const ExactProblem& problem, ExactState* state) {
  SharedSearch(problem, state).Run();
}

Weight EvaluateShared(const ExactProblem& problem, const std::vector<int>& values) {
  Weight weight = EvaluatePairwise(problem.pairwise, values);
  for (const Star& star : problem.stars) weight += MakeWeight(EvaluateStar(star, values), 0);
  return weight;
}

}  // namespace tofu
