/*!
 * \file test_recursive.cc
 * \brief The search over whole graphs: its bytes, its hints, and joins of hundreds of tensors.
 */
#include <numeric>
#include <stdexcept>

#include "check.h"
#include "core/search/recursive.h"
#include "sample_graphs.h"

namespace {

using namespace tofu;       // NOLINT(build/namespaces)
using namespace tofu_test;  // NOLINT(build/namespaces)

int64_t Total(const SearchResult& result) {
  return std::accumulate(result.step_bytes.begin(), result.step_bytes.end(), int64_t{0});
}

void TestBytesAreThePlans() {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Graph graph = DrawGraph(seed);
    const WorkerGrid grid({2, 2, 2});
    const SearchResult result = SearchRecursive(graph, grid, {}, nullptr);
    const PlanCost cost = EvaluatePlan(graph, grid, result.assignment);
    CHECK(cost.step_bytes == result.step_bytes);
    // A step alone has no better plan.
    const WorkerGrid first = grid.Prefix(1);
    for (uint64_t other = 1; other <= 20; ++other) {
      const Assignment plan = DrawAssignment(graph, first, other);
      if (std::count(plan.tensors.begin(), plan.tensors.end(), std::vector<int>{kReplicated}) > 0 ||
          std::count(plan.operators.begin(), plan.operators.end(), std::vector<int>{kReplicated}) >
              0) {
        continue;  // the search would not replicate these
      }
      CHECK(EvaluatePlan(graph, first, plan).total_bytes >= result.step_bytes[0]);
    }
  }
}

/*! \brief 300 tensors joined by one operator are no harder than a chain. */
void TestWideSum() {
  Graph graph;
  const int x = graph.AddTensor({64, 64}, 4, false, 0);
  std::vector<int> parts;
  for (int i = 0; i < 300; ++i) {
    parts.push_back(AddMatmul(&graph, x, graph.AddTensor({64, 64}, 4, false, 0)));
  }
  graph.MarkOutput(AddSum(&graph, parts));
  const WorkerGrid grid({2, 2});
  CHECK(SearchRecursive(graph, grid, {}, nullptr).largest_table <= 27);
}

void TestHints() {
  Graph graph;
  const int x = graph.AddTensor({8, 8}, 4, false, 0);
  graph.MarkOutput(AddMatmul(&graph, x, graph.AddTensor({8, 8}, 4, false, 0)));
  const WorkerGrid grid({2, 2});
  Hints hints;
  hints.operators[0] = {2, kFree};
  hints.tensors[2] = {kFree, kReplicated};
  const SearchResult result = SearchRecursive(graph, grid, hints, nullptr);
  CHECK(result.assignment.operators[0][0] == 2);
  CHECK(result.assignment.tensors[2][1] == kReplicated);
  CHECK(Total(result) >= Total(SearchRecursive(graph, grid, {}, nullptr)));
  hints.operators[0] = {5, 0};
  CHECK_THROWS(std::invalid_argument, SearchRecursive(graph, grid, hints, nullptr),
               "operator 0 is fixed to 5 at step 0");
  hints.operators = {{4, {0, 0}}};
  CHECK_THROWS(std::invalid_argument, SearchRecursive(graph, grid, hints, nullptr),
               "operator 4 does not exist");
}

void TestProgressMayStop() {
  const Graph graph = DrawGraph(3);
  int calls = 0;
  const auto stop = [&](int, int64_t) {
    ++calls;
    throw std::runtime_error("stopped");
  };
  CHECK_THROWS(std::runtime_error, SearchRecursive(graph, WorkerGrid({2, 2}), {}, stop), "stopped");
  CHECK(calls == 1);
}

}  // namespace

int main() {
  TestBytesAreThePlans();
  TestWideSum();
  TestHints();
  TestProgressMayStop();
  return tofu_test::Finish("recursive");
}
