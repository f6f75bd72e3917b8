/*!
 * \file test_shared.cc
 * \brief Costs that several readers share, compared with all assignments.
 */
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "core/bounds/message_passing.h"
#include "core/search/shared_search.h"
#include "core/search/star_variables.h"
#include "draw_pairwise.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)
using tofu_test::DrawProblem;
using tofu_test::ForAll;
using tofu_test::Random;

/*! \brief Stars of random centres and readers, some of them repeated; many patterns cost nothing.
 */
std::vector<Star> DrawStars(uint64_t seed, int size, int readers) {
  Random random(seed + 1000);
  std::vector<Star> stars;
  for (int64_t s = random.Draw(1, 3); s > 0; --s) {
    Star star;
    star.centre = static_cast<int>(random.Draw(0, size - 1));
    for (int pattern = 0; pattern < 4; ++pattern) {
      star.bytes.emplace_back();
      for (int x = 0; x < 3; ++x)
        star.bytes.back().push_back(std::max<int64_t>(random.Draw(-20, 60), 0));
    }
    for (int r = 0; r < readers; ++r) {
      const int reader = static_cast<int>(random.Draw(0, size - 1));
      if (reader == star.centre) continue;
      star.readers.push_back({reader, {}});
      for (int x = 0; x < 3; ++x)
        star.readers.back().patterns.push_back(static_cast<int>(random.Draw(0, 3)));
    }
    if (!star.readers.empty()) stars.push_back(std::move(star));
  }
  return stars;
}

struct Case {
  ExactProblem problem;
  int64_t least = 0;
  std::vector<std::vector<int64_t>> least_with;  // by variable and value
};

Case MakeCase(uint64_t seed, int readers) {
  Case made;
  ExactProblem& problem = made.problem;
  problem.pairwise = DrawProblem(seed);
  const int size = problem.pairwise.size();
  problem.stars = DrawStars(seed, size, readers);
  problem.sequences.assign(size,
                           std::make_shared<std::vector<std::vector<int>>>(
                               std::vector<std::vector<int>>{{0, 0, 0}, {0, 1, 0}, {1, 0, 1}}));
  problem.order = tofu_test::NaturalOrder(problem.pairwise);
  made.least = INT64_MAX;
  made.least_with.assign(size, std::vector<int64_t>(3, INT64_MAX));
  ForAll(problem.pairwise, [&](const std::vector<int>& values) {
    const int64_t bytes = WeightBytes(EvaluateShared(problem, values));
    made.least = std::min(made.least, bytes);
    for (int v = 0; v < size; ++v) {
      int64_t& least = made.least_with[v][values[v]];
      least = std::min(least, bytes);
    }
  });
  return made;
}

void CheckBounds(const Case& made, const MessagePassing& passing, const KeptValues& kept) {
  std::vector<std::vector<int64_t>> reduced;
  const int64_t bound = passing.ComputeBound(&reduced);
  CHECK(bound <= made.least);
  for (size_t v = 0; v < kept.size(); ++v) {
    for (size_t x = 0; x < kept[v].size(); ++x)
      CHECK(bound + reduced[v][x] <= made.least_with[v][kept[v][x]]);
  }
}

/*! \brief Bounds hold also after values of costly assignments are removed. */
void TestStarsBoundEveryValue() {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    for (int readers : {2, 3, 5, 11}) {
      const Case made = MakeCase(seed, readers);
      const ExactProblem& problem = made.problem;
      const KeptValues all = KeepAll(problem.pairwise);
      MessagePassing passing(problem.pairwise, problem.stars, problem.order);
      for (int sweep = 0; sweep < 4; ++sweep) {
        CheckBounds(made, passing, all);
        passing.Sweep();
      }
      KeptValues kept;
      for (const std::vector<int64_t>& least_with : made.least_with) {
        kept.emplace_back();
        for (int x = 0; x < 3; ++x) {
          if (least_with[x] <= made.least + 10) kept.back().push_back(x);
        }
      }
      std::vector<Star> stars;
      for (const Star& star : problem.stars) stars.push_back(RestrictStar(star, kept));
      const PairwiseProblem pairs = Restrict(problem.pairwise, kept);
      MessagePassing warm(pairs, stars, problem.order, passing, kept);
      CheckBounds(made, warm, kept);
      warm.Sweep();
      CheckBounds(made, warm, kept);
    }
  }
}

/*! \brief All sets of patterns, and those of little excess, keep the least cost. */
void TestTabulatedStarsCostTheSame() {
  int num_smaller = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const Case made = MakeCase(seed, seed % 2 == 0 ? 3 : 5);
    const ExactProblem& problem = made.problem;
    const std::vector<int> best(problem.pairwise.size(), 1);
    const std::vector<StarExcess> unknown(problem.stars.size());
    const auto all =
        TabulateStars(problem.pairwise, problem.stars, unknown, 1 << 30, kAllSets, best, 1 << 30);
    CHECK(all.has_value());
    CHECK(WeightBytes(tofu_test::Least(all->problem)) == made.least);
    std::vector<int> completed = best;
    CompleteStars(problem.stars, *all, &completed);
    CHECK(EvaluatePairwise(all->problem, completed) == EvaluateShared(problem, best));
    MessagePassing passing(problem.pairwise, problem.stars, problem.order);
    passing.Sweep();
    std::vector<std::vector<int64_t>> reduced;
    const int64_t gap = made.least - passing.ComputeBound(&reduced);
    const auto few = TabulateStars(problem.pairwise, problem.stars, passing.FindExcess(), gap,
                                   kAllSets, best, 1 << 30);
    CHECK(WeightBytes(tofu_test::Least(few->problem)) == made.least);
    for (size_t s = 0; s < few->values.size(); ++s)
      num_smaller += few->values[s].size() < all->values[s].size();
  }
  CHECK(num_smaller > 50);  // else the excess excluded nothing
}

void TestClaimsOfSharedSearchAreTrue() {
  int num_open = 0;
  for (size_t max_table_entries : {size_t{1}, size_t{27}, kMaxTableEntries}) {
    for (double seconds : {0.0, 1e-5, 1.0}) {
      for (uint64_t seed = 1; seed <= 60; ++seed) {
        const Case made = MakeCase(seed, 4);
        if (made.problem.stars.empty()) continue;
        const ExactProgress check = [&](const std::string&, int64_t best, int64_t bound) {
          CHECK(bound <= made.least);
          CHECK(best >= made.least);
        };
        ExactLimits limits;
        limits.seconds = seconds;
        limits.max_table_entries = max_table_entries;
        ExactState state(limits, check);
        const std::vector<int> first(made.problem.pairwise.size(), static_cast<int>(seed % 3));
        state.Offer(first, EvaluateShared(made.problem, first));
        SearchShared(made.problem, &state);
        CHECK(state.weight() == EvaluateShared(made.problem, state.values()));
        CHECK(state.bound() <= made.least);
        CHECK(!state.is_optimal() || state.bytes() == made.least);
        if (seconds == 1.0 && max_table_entries == kMaxTableEntries) CHECK(state.is_optimal());
        num_open += !state.is_optimal();
      }
    }
  }
  CHECK(num_open > 30);  // else every problem was solved, and no bound tested
}

}  // namespace

int main() {
  TestStarsBoundEveryValue();
  TestTabulatedStarsCostTheSame();
  TestClaimsOfSharedSearchAreTrue();
  return tofu_test::Finish("shared");
}
