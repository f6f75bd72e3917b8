/*!
 * \file test_exact.cc
 * \brief What shrinks and bounds a pairwise problem, against exhaustive elimination.
 */
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "check.h"
#include "core/bound.h"
#include "core/contract.h"
#include "core/dominance.h"
#include "core/pairwise.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)
using tofu_test::Random;

/*! \brief A chain with random chords, some of whose tables are one object. */
PairwiseProblem DrawProblem(uint64_t seed) {
  Random random(seed);
  PairwiseProblem problem;
  const int size = static_cast<int>(random.Draw(2, 9));
  for (int v = 0; v < size; ++v) {
    problem.unary.emplace_back();
    for (int64_t x = 0; x < 3; ++x)
      problem.unary.back().push_back(MakeWeight(random.Draw(0, 20), random.Draw(0, 1000000)));
  }
  SharedMatrix last;
  const auto connect = [&](int a, int b) {
    if (last == nullptr || random.Draw(0, 2) > 0) {
      auto bytes = std::make_shared<ByteMatrix>();
      bytes->rows = bytes->columns = 3;
      for (int i = 0; i < 9; ++i) bytes->entries.push_back(random.Draw(0, 50));
      last = bytes;
    }
    problem.pairs.push_back({a, b, last});
  };
  for (int v = 1; v < size; ++v) connect(v - 1, v);
  for (int v = 3; v < size; ++v) {
    if (random.Draw(0, 1) > 0) connect(v, static_cast<int>(random.Draw(0, v - 2)));
  }
  return problem;
}

Weight Least(const PairwiseProblem& problem) {
  return EliminatePairwise(problem, kMaxTableEntries).weight;
}

void TestDominanceKeepsTheOptimum() {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const PairwiseProblem problem = DrawProblem(seed);
    const Dominance dominance = FindDominated(problem);
    CHECK(Least(Restrict(problem, dominance.kept)) == Least(problem));
  }
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
  TestContractionKeepsTheLeastBytes();
  TestBoundAndReducedCosts();
  TestEstimateIsWhatEliminationDoes();
  return tofu_test::Finish("exact");
}
