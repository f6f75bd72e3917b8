/*!
 * \file test_exact.cc
 * \brief What shrinks and bounds a pairwise problem, against exhaustive elimination.
 */
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "core/bound.h"
#include "core/bucket_tree.h"
#include "core/contract.h"
#include "core/dominance.h"
#include "core/exact_bound.h"
#include "core/exact_problem.h"
#include "core/exact_state.h"
#include "core/min_sum.h"
#include "core/mini_buckets.h"
#include "core/pairwise.h"
#include "core/rearrange.h"
#include "core/repetition.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)
using tofu_test::Random;

/*! \brief A chain with random chords, up to `chords` from each variable back, some of whose tables
 * are one object; its pairs run either way. Tables hold up to `most` bytes: where these are few,
 * many assignments cost the same. */
PairwiseProblem DrawProblem(uint64_t seed, int64_t most = 50, int chords = 1) {
  Random random(seed);
  PairwiseProblem problem;
  const int size = static_cast<int>(random.Draw(2, 9));
  for (int v = 0; v < size; ++v) {
    problem.unary.emplace_back();
    for (int64_t x = 0; x < 3; ++x)
      problem.unary.back().push_back(
          MakeWeight(random.Draw(0, 2 * most / 5), random.Draw(0, 1000000)));
  }
  SharedMatrix last;
  const auto connect = [&](int a, int b) {
    if (random.Draw(0, 1) > 0) std::swap(a, b);
    if (last == nullptr || random.Draw(0, 2) > 0) {
      auto bytes = std::make_shared<ByteMatrix>();
      bytes->rows = bytes->columns = 3;
      for (int i = 0; i < 9; ++i) bytes->entries.push_back(random.Draw(0, most));
      last = bytes;
    }
    problem.pairs.push_back({a, b, last});
  };
  for (int v = 1; v < size; ++v) connect(v - 1, v);
  for (int chord = 0; chord < chords; ++chord) {
    for (int v = 3; v < size; ++v) {
      if (random.Draw(0, 1) > 0) connect(v, static_cast<int>(random.Draw(0, v - 2)));
    }
  }
  return problem;
}

Weight Least(const PairwiseProblem& problem) {
  return EliminatePairwise(problem, kMaxTableEntries).weight;
}

/*! \brief Of all assignments, one after the other. */
Weight LeastOfAll(const PairwiseProblem& problem) {
  std::vector<int> values(problem.size(), 0);
  Weight least = EvaluatePairwise(problem, values);
  for (size_t v = 0; v < values.size();) {
    if (++values[v] == static_cast<int>(problem.unary[v].size())) {
      values[v++] = 0;
    } else {
      least = std::min(least, EvaluatePairwise(problem, values));
      v = 0;
    }
  }
  return least;
}

/*! \brief The one of the least tie is kept where several cost the same. */
void TestDominanceKeepsTheOptimum() {
  for (int64_t most : {2, 50}) {
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      const PairwiseProblem problem = DrawProblem(seed, most);
      const Dominance dominance = FindDominated(problem);
      CHECK(Least(Restrict(problem, dominance.kept)) == LeastOfAll(problem));
    }
  }
}

/*!
 * \brief Whatever the search may hold, may do, and begins with: it says of no cost that it cannot
 * be undercut where some assignment does, neither on its way nor at its end, and what it calls
 * optimal is.
 */
void CheckSearchByBounds(uint64_t seed, int64_t most, const ExactLimits& limits, int* num_open) {
  PairwiseProblem pairwise = DrawProblem(seed, most, 3);
  const int64_t least = WeightBytes(LeastOfAll(pairwise));
  ExactProblem problem;
  problem.sequences.assign(pairwise.size(), std::make_shared<std::vector<std::vector<int>>>(
                                                std::vector<std::vector<int>>{{0}, {1}, {2}}));
  problem.order.resize(pairwise.size());
  std::iota(problem.order.begin(), problem.order.end(), 0);
  const ExactProgress check = [&](const std::string&, int64_t best, int64_t bound) {
    CHECK(bound <= least);
    CHECK(best == -1 || best >= least);
  };
  ExactState state(limits, check);
  Part part = MakePart(std::move(pairwise));
  if (seed % 2 == 0) state.Offer(part, std::vector<int>(part.problem.size(), 1));
  if (seed % 3 == 0) state.DropDominated(&part);
  SearchByBounds(problem, &part, &state);
  CHECK(state.bound() <= least);
  CHECK(state.bytes() >= least);
  CHECK(!state.is_optimal() || state.bytes() == least);
  *num_open += !state.is_optimal();
}

void TestNoBoundPassesTheOptimum() {
  int num_open = 0;
  for (size_t max_table_entries : {1, 3, 9, 27, 81}) {
    for (double seconds : {0.0, 1e-6, 1.0}) {
      ExactLimits limits;
      limits.seconds = seconds;
      limits.max_table_entries = max_table_entries;
      for (int64_t most : {2, 50, 100000}) {
        for (uint64_t seed = 1; seed <= 60; ++seed)
          CheckSearchByBounds(seed, most, limits, &num_open);
      }
    }
  }
  CHECK(num_open > 100);  // else all were solved, whatever the bounds said
}

void TestContractionKeepsTheLeastBytes() {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const PairwiseProblem problem = DrawProblem(seed);
    const Contraction contraction = Contract(problem, 1e6);
    CHECK(contraction.problem.size() < problem.size());
    CHECK(contraction.constant + WeightBytes(Least(contraction.problem)) ==
          WeightBytes(Least(problem)));
  }
}

void TestBoundAndReducedCosts() {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const PairwiseProblem problem = DrawProblem(seed);
    std::vector<int> order(problem.size());
    std::iota(order.begin(), order.end(), 0);
    MessagePassing messages(problem, order);
    const int64_t least = WeightBytes(Least(problem));
    std::vector<std::vector<int64_t>> reduced;
    for (int sweep = 0; sweep < 4; ++sweep) {
      const int64_t bound = messages.ComputeBound(&reduced);
      CHECK(bound <= least);
      CHECK(least <= WeightBytes(EvaluatePairwise(problem, messages.RoundGreedily())));
      for (int v = 0; v < problem.size(); ++v) {
        for (int x = 0; x < 3; ++x) {
          KeptValues kept(problem.size(), {0, 1, 2});
          kept[v] = {x};
          CHECK(bound + reduced[v][x] <= WeightBytes(Least(Restrict(problem, kept))));
        }
      }
      messages.Sweep();
    }
  }
}

void TestSpreadMovesBytesAndLosesNone() {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const PairwiseProblem problem = DrawProblem(seed);
    std::vector<int> order(problem.size());
    std::iota(order.begin(), order.end(), 0);
    MessagePassing messages(problem, order);
    messages.Sweep();
    PairwiseProblem spread;
    std::vector<std::vector<int64_t>> reduced;
    const int64_t bound = messages.Spread(&spread);
    CHECK(bound == messages.ComputeBound(&reduced));
    Random random(seed);
    std::vector<int> values;
    for (int v = 0; v < problem.size(); ++v) values.push_back(static_cast<int>(random.Draw(0, 2)));
    CHECK(bound + WeightBytes(EvaluatePairwise(spread, values)) ==
          WeightBytes(EvaluatePairwise(problem, values)));
    for (const std::vector<Weight>& unary : spread.unary)
      CHECK(*std::min_element(unary.begin(), unary.end()) == 0);
    for (const PairTable& pair : spread.pairs)
      CHECK(*std::min_element(pair.bytes->entries.begin(), pair.bytes->entries.end()) == 0);
  }
}

/*! \brief `scale` 2^27 makes bytes that the small numbers of the tables have to round. */
void CheckMiniBuckets(uint64_t seed, size_t max_entries, int64_t scale) {
  PairwiseProblem problem = DrawProblem(seed);
  for (std::vector<Weight>& unary : problem.unary) {
    for (Weight& weight : unary) weight = MakeWeight(WeightBytes(weight) * scale, 0);
  }
  for (PairTable& pair : problem.pairs) {
    auto scaled = std::make_shared<ByteMatrix>(*pair.bytes);
    for (int64_t& bytes : scaled->entries) bytes *= scale;
    pair.bytes = scaled;
  }
  const int64_t least = WeightBytes(Least(problem));
  const MiniBucketBound found =
      BoundByMiniBuckets(problem, 1000 * scale, max_entries, [](double, size_t) {});
  CHECK(found.bytes <= least);
  CHECK(found.largest_table <= std::max<size_t>(max_entries, 3));
  if (max_entries == kMaxTableEntries && scale == 1) CHECK(found.bytes == least);
  for (int v = 0; v < problem.size(); ++v) {
    for (int x = 0; x < 3; ++x) {
      KeptValues kept(problem.size(), {0, 1, 2});
      kept[v] = {x};
      const int64_t least_with_it = WeightBytes(Least(Restrict(problem, kept)));
      CHECK(found.bytes + found.excess[v][x] <= least_with_it);
      if (max_entries == kMaxTableEntries && scale == 1)
        CHECK(found.bytes + found.excess[v][x] == least_with_it);
    }
  }
}

void TestMiniBucketsBoundEveryValue() {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    for (size_t max_entries : {size_t{3}, size_t{9}, size_t{27}, kMaxTableEntries}) {
      CheckMiniBuckets(seed, max_entries, 1);
      CheckMiniBuckets(seed, max_entries, int64_t{1} << 27);
    }
  }
}

/*! \brief Against loops over all assignments: one table of three variables, two of two. */
void TestProjectIsTheLeastSum() {
  const std::vector<size_t> sizes = {3, 4, 5, 2};
  Random random(5);
  const auto draw = [&](const std::vector<int>& scope) {
    auto entries = std::make_shared<Costs>();
    size_t count = 1;
    for (int v : scope) count *= sizes[v];
    for (size_t i = 0; i < count; ++i) entries->push_back(static_cast<Cost>(random.Draw(0, 1000)));
    return CostTable{scope, std::move(entries)};
  };
  const CostTable a = draw({2, 0, 1});
  const CostTable b = draw({1, 3});
  const CostTable c = draw({3, 2});
  double additions = 0;
  const CostTable least = Project({&a, &b, &c}, {1, 0}, sizes, &additions);
  for (size_t x = 0; x < sizes[1]; ++x) {
    for (size_t y = 0; y < sizes[0]; ++y) {
      Cost expected = kMaxCost;
      for (size_t z = 0; z < sizes[2]; ++z) {
        for (size_t w = 0; w < sizes[3]; ++w)
          expected = std::min(expected, (*a.entries)[(z * sizes[0] + y) * sizes[1] + x] +
                                            (*b.entries)[x * sizes[3] + w] +
                                            (*c.entries)[w * sizes[2] + z]);
      }
      CHECK((*least.entries)[x * sizes[0] + y] == expected);
    }
  }
}

/*! \brief `count` squares in a row, each connected to the next, all of the same four tables. */
PairwiseProblem DrawSquares(uint64_t seed, int count) {
  Random random(seed);
  PairwiseProblem problem;
  std::vector<SharedMatrix> tables;
  for (int t = 0; t < 4; ++t) {
    auto bytes = std::make_shared<ByteMatrix>();
    bytes->rows = bytes->columns = 3;
    for (int i = 0; i < 9; ++i) bytes->entries.push_back(random.Draw(0, 50));
    tables.push_back(bytes);
  }
  for (int square = 0; square < count; ++square) {
    const int a = problem.size();
    for (int v = 0; v < 4; ++v) problem.unary.emplace_back(3, Weight{0});
    for (int side = 0; side < 3; ++side)
      problem.pairs.push_back({a + side, a + side + 1, tables[side]});
    problem.pairs.push_back({a, a + 3, tables[3]});
    if (square > 0) problem.pairs.push_back({a - 2, a, tables[0]});
    if (square > 0) problem.pairs.push_back({a - 1, a + 1, tables[1]});
  }
  return problem;
}

void TestRepeatedPartsAreAlikeAndBounded() {
  constexpr int kSquares = 6;
  const std::vector<int> alike = FindAlike(DrawSquares(1, kSquares), 1);
  for (int v = 0; v < 4; ++v) {
    CHECK(alike[4 + v] == alike[12 + v]);
    CHECK(v == 0 || alike[4 + v] != alike[4]);
  }
  CHECK(alike[0] != alike[4]);  // the first has none before it
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const PairwiseProblem problem = DrawSquares(seed, kSquares);
    std::vector<int> order(problem.size());
    std::iota(order.begin(), order.end(), 0);
    MessagePassing messages(problem, order);
    messages.Sweep();
    messages.Average(FindAlike(problem, 1));
    PairwiseProblem spread;
    const int64_t bytes = messages.Spread(&spread);
    for (size_t max_entries : {size_t{3}, size_t{9}, size_t{27}}) {
      const MiniBucketBound found =
          BoundByMiniBuckets(spread, 1000, max_entries, [](double, size_t) {});
      for (int v = 0; v < problem.size(); ++v) {
        for (int x = 0; x < 3; ++x) {
          KeptValues kept(problem.size(), {0, 1, 2});
          kept[v] = {x};
          CHECK(bytes + found.bytes + found.excess[v][x] <=
                WeightBytes(Least(Restrict(problem, kept))));
        }
      }
    }
  }
}

/*! \brief Along a row of equal tables the minima become equal: from there on nothing is computed,
 * neither there nor back, and the costs of all values come out as they are. */
void TestEqualMinimaAreComputedOnce() {
  Random random(3);
  auto bytes = std::make_shared<ByteMatrix>();
  bytes->rows = bytes->columns = 3;
  for (int i = 0; i < 9; ++i) bytes->entries.push_back(random.Draw(0, 50));
  PairwiseProblem problem;
  for (int v = 0; v < 40; ++v) {
    problem.unary.emplace_back(3, Weight{0});
    if (v > 0) problem.pairs.push_back({v - 1, v, bytes});
  }
  const auto pause = [](double, size_t) {};
  int computed = 0;
  const BucketTree tree = GrowBucketTree(problem, 1, kMaxTableEntries, pause);
  for (size_t b = 0; b < tree.buckets.size(); ++b)
    computed += tree.buckets[b].alike == static_cast<int>(b);
  CHECK(tree.buckets.size() == 40);
  CHECK(computed < 20);
  const int64_t least = WeightBytes(Least(problem));
  const MiniBucketBound found = BoundByMiniBuckets(problem, 1000, kMaxTableEntries, pause);
  CHECK(found.bytes == least);
  for (int v = 0; v < problem.size(); ++v) {
    for (int x = 0; x < 3; ++x) {
      KeptValues kept(problem.size(), {0, 1, 2});
      kept[v] = {x};
      CHECK(least + found.excess[v][x] == WeightBytes(Least(Restrict(problem, kept))));
    }
  }
}

/*! \brief Sizes that blocks do not divide, in every order of the variables. */
void TestRearrangedTablesAreTheSame() {
  const std::vector<size_t> sizes = {17, 9, 20};
  auto entries = std::make_shared<Costs>(17 * 9 * 20);
  std::iota(entries->begin(), entries->end(), 0);
  std::vector<int> scope = {0, 1, 2};
  do {
    Costs sum(entries->size(), 1);
    AddRearranged({{0, 1, 2}, entries}, scope, sizes, sum.data());
    Costs copy(entries->size(), -1);
    CopyRearranged({{0, 1, 2}, entries}, scope, sizes, copy.data());
    std::vector<size_t> at(3);
    size_t n = 0;
    for (at[0] = 0; at[0] < sizes[scope[0]]; ++at[0]) {
      for (at[1] = 0; at[1] < sizes[scope[1]]; ++at[1]) {
        for (at[2] = 0; at[2] < sizes[scope[2]]; ++at[2]) {
          std::vector<size_t> of_variable(3);
          for (int i = 0; i < 3; ++i) of_variable[scope[i]] = at[i];
          const Cost entry =
              (*entries)[(of_variable[0] * 9 + of_variable[1]) * 20 + of_variable[2]];
          CHECK(sum[n] == 1 + entry);
          CHECK(copy[n++] == entry);
        }
      }
    }
  } while (std::next_permutation(scope.begin(), scope.end()));
}

void TestEstimateIsWhatEliminationDoes() {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const PairwiseProblem problem = DrawProblem(seed);
    const EliminationResult result = EliminatePairwise(problem, kMaxTableEntries);
    CHECK(static_cast<size_t>(EstimateElimination(problem).largest_table) == result.largest_table);
    CHECK(EvaluatePairwise(problem, result.values) == result.weight);
  }
}

}  // namespace

int main() {
  TestDominanceKeepsTheOptimum();
  TestNoBoundPassesTheOptimum();
  TestContractionKeepsTheLeastBytes();
  TestBoundAndReducedCosts();
  TestSpreadMovesBytesAndLosesNone();
  TestMiniBucketsBoundEveryValue();
  TestProjectIsTheLeastSum();
  TestRepeatedPartsAreAlikeAndBounded();
  TestEqualMinimaAreComputedOnce();
  TestRearrangedTablesAreTheSame();
  TestEstimateIsWhatEliminationDoes();
  return tofu_test::Finish("exact");
}
