/*!
 * \file test_eliminate.cc
 * \brief Elimination compared with exhaustive search, its order on wide joins, and its limit.
 */
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/elimination/dominance.h"
#include "core/elimination/eliminate.h"
#include "draw_pairwise.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)
using tofu_test::FindLeast;
using tofu_test::Random;

void AddPair(int first, int second, Random* random, PairwiseProblem* problem) {
  const size_t rows = problem->unary[first].size(), columns = problem->unary[second].size();
  ByteMatrix table{rows, columns, std::vector<int64_t>(rows * columns)};
  for (int64_t& bytes : table.entries) bytes = random->Draw(-3, 9);
  problem->pairs.push_back({first, second, std::make_shared<ByteMatrix>(std::move(table))});
}

PairwiseProblem DrawProblem(uint64_t seed) {
  Random random(seed);
  PairwiseProblem problem;
  const int size = static_cast<int>(random.Draw(1, 7));
  for (int v = 0; v < size; ++v) {
    problem.unary.emplace_back();
    for (int64_t x = random.Draw(1, 4); x > 0; --x) {
      problem.unary.back().push_back(MakeWeight(random.Draw(0, 5), random.Draw(0, 1000)));
    }
  }
  for (int64_t pair = random.Draw(0, 2 * size); pair > 0 && size > 1; --pair) {
    const int first = static_cast<int>(random.Draw(0, size - 1));
    const int second = static_cast<int>((first + random.Draw(1, size - 1)) % size);
    AddPair(first, second, &random, &problem);
  }
  return problem;
}

void TestAgainstExhaustiveSearch() {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const PairwiseProblem problem = DrawProblem(seed);
    const EliminationResult result = Eliminate(problem);
    CHECK(result.weight == FindLeast(problem));
    CHECK(EvaluatePairwise(problem, result.values) == result.weight);
  }
}

/*! \brief Four variables, all connected: their first table has more entries than one block. */
void TestLargeTablesAgainstExhaustiveSearch() {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    PairwiseProblem problem;
    for (int v = 0; v < 4; ++v) {
      problem.unary.emplace_back();
      for (int64_t x = random.Draw(13, 16); x > 0; --x)
        problem.unary.back().push_back(MakeWeight(random.Draw(0, 5), random.Draw(0, 1000)));
      for (int u = 0; u < v; ++u) {
        const bool turns = random.Draw(0, 1) == 1;
        AddPair(turns ? u : v, turns ? v : u, &random, &problem);
      }
    }
    const EliminationResult result = Eliminate(problem);
    CHECK(result.largest_table > 2048);
    CHECK(result.weight == FindLeast(problem));
    CHECK(EvaluatePairwise(problem, result.values) == result.weight);
  }
}

void TestDominatedValuesDoNotMatter() {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    for (const PairwiseProblem& problem :
         {DrawProblem(seed), tofu_test::DrawProblem(seed), tofu_test::DrawProblem(seed, 2),
          tofu_test::DrawProblem(seed, 2, 4)}) {
      for (const double large_table : {0.0, 1e6}) {
        const EliminationResult found = EliminateInStages(problem, large_table);
        CHECK(found.weight == FindLeast(problem));
        CHECK(EvaluatePairwise(problem, found.values) == found.weight);
      }
    }
  }
}

PairwiseProblem MakeProblem(const std::vector<std::pair<int, int>>& edges, int size, int domain) {
  PairwiseProblem problem;
  problem.unary.assign(size, std::vector<Weight>(domain, 0));
  const size_t values = domain;
  const auto ones = std::make_shared<ByteMatrix>(
      ByteMatrix{values, values, std::vector<int64_t>(values * values, 1)});
  for (const auto& [a, b] : edges) {
    problem.pairs.push_back({a, b, ones});
  }
  return problem;
}

/*! \brief Join 600 tensors, each produced by its own operator from one shared tensor. */
void TestWideJoinsStayNarrow() {
  constexpr int kInputs = 600;
  std::vector<std::pair<int, int>> edges;
  for (int i = 0; i < kInputs; ++i) {
    const int tensor = 2 + 2 * i;
    edges.emplace_back(tensor, 0);
    edges.emplace_back(tensor + 1, tensor);
    edges.emplace_back(tensor + 1, 1);
  }
  const EliminationResult result = Eliminate(MakeProblem(edges, 2 + 2 * kInputs, 4));
  CHECK(result.largest_table <= 16);
  CHECK(WeightBytes(result.weight) == 3 * kInputs);
}

void TestDenseProblemsAreRefused() {
  std::vector<std::pair<int, int>> edges;
  for (int a = 0; a < 40; ++a) {
    for (int b = 0; b < a; ++b) edges.emplace_back(a, b);
  }
  CHECK_THROWS(std::runtime_error, Eliminate(MakeProblem(edges, 40, 3)), "too densely connected");
  CHECK_THROWS(std::runtime_error, Eliminate(MakeProblem({{0, 1}}, 2, 3), 2),
               "more than 2 entries");
}

}  // namespace

int main() {
  TestAgainstExhaustiveSearch();
  TestLargeTablesAgainstExhaustiveSearch();
  TestDominatedValuesDoNotMatter();
  TestWideJoinsStayNarrow();
  TestDenseProblemsAreRefused();
  return tofu_test::Finish("eliminate");
}
