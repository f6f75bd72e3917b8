/*!
 * \file test_emit.cc
 * \brief Programs move the plan's bytes, in an executable order, and sources lie inside their
 * entries.
 */
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "check.h"
#include "core/program/emit.h"
#include "core/search/recursive.h"
#include "sample_graphs.h"

namespace {

using namespace tofu;       // NOLINT(build/namespaces)
using namespace tofu_test;  // NOLINT(build/namespaces)

void CheckSources(const Program& program, const ProgramNode& fetch) {
  for (const Piece& piece : fetch.pieces) {
    CHECK(!piece.sources.empty());
    for (const Source& source : piece.sources) {
      const Entry& entry = fetch.inputs[source.input];
      const std::vector<int64_t>& shape = program.nodes[entry.node].shapes[entry.index];
      CHECK(FindWrongDimensions(source, piece.box).empty());
      CHECK(source.begin.size() == shape.size());
      for (size_t d = 0; d < shape.size(); ++d) {
        CHECK(source.begin[d] >= 0);
        CHECK(source.begin[d] + source.ExtentAlong(d, piece.box) <= shape[d]);
      }
      for (size_t d = 0; d < piece.box.size(); ++d)
        CHECK(Contains({0, fetch.shapes[0][d]}, piece.box[d]));
    }
  }
}

/*! \brief Inputs stand before their readers, and only fetches look at other workers. */
void CheckInputs(const Program& program) {
  for (size_t id = 0; id < program.nodes.size(); ++id) {
    const ProgramNode& node = program.nodes[id];
    for (const Entry& entry : node.inputs) {
      CHECK(entry.node < static_cast<int64_t>(id));
      CHECK(node.kind == NodeKind::kFetch || program.nodes[entry.node].worker == node.worker);
    }
    CheckSources(program, node);
  }
}

/*! \brief Copies stand in the order of the operators; between two fetches of one phase, worker by
 * worker. */
void CheckOrder(const Program& program) {
  CheckInputs(program);
  std::vector<std::pair<int64_t, int64_t>> copies;  // (worker, operator) since the last fetch
  int64_t last = -1;                                // operator before it
  int64_t phase = -1;                               // of the copies
  const auto close = [&] {
    CHECK(std::is_sorted(copies.begin(), copies.end()));
    CHECK(std::adjacent_find(copies.begin(), copies.end()) == copies.end());
    const int64_t before = last;
    for (const auto& copy : copies) {
      CHECK(copy.second >= before);
      last = std::max(last, copy.second);
    }
    copies.clear();
  };
  for (const ProgramNode& node : program.nodes) {
    if (node.kind == NodeKind::kVariable) continue;
    if (node.kind == NodeKind::kFetch || node.phase != phase) close();
    phase = node.phase;
    if (node.kind == NodeKind::kOperator) copies.emplace_back(node.worker, node.id);
  }
  close();
}

/*! \brief Every node is read by another one or handed out: a framework runs nothing else. */
void CheckNothingIsLeftOut(const Program& program) {
  std::vector<char> is_wanted(program.nodes.size(), 0);
  for (const ProgramNode& node : program.nodes) {
    for (const Entry& entry : node.inputs) is_wanted[entry.node] = 1;
  }
  for (const Entry& entry : program.outputs) is_wanted[entry.node] = 1;
  CHECK(std::count(is_wanted.begin(), is_wanted.end(), 0) == 0);
}

void TestRandomPlans() {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Graph graph = DrawGraph(seed);
    const WorkerGrid grid(seed % 2 ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{3, 2});
    const Assignment plan = DrawAssignment(graph, grid, seed);
    const int output = graph.num_tensors() - 1;
    OutputRequest request;
    for (request.tensor = output; graph.tensor(request.tensor).output_positions.empty();) {
      --request.tensor;
    }
    const Program program = EmitProgram(graph, grid, plan, {0}, {request});
    CheckOrder(program);
    CheckNothingIsLeftOut(program);
    const std::vector<int64_t> traffic = CountTraffic(graph, program);
    CHECK(std::accumulate(traffic.begin(), traffic.end(), int64_t{0}) ==
          EvaluatePlan(graph, grid, plan).total_bytes);
    for (int worker = 0; worker < grid.num_workers(); ++worker) {
      CHECK(traffic[worker * grid.num_workers() + worker] == 0);
      const Entry& entry = program.outputs[worker];
      const Boxes shards =
          SplitBoxes(graph.tensor(request.tensor).shape, grid, plan.tensors[request.tensor]);
      CHECK(program.nodes[entry.node].worker == worker);
      CHECK(program.nodes[entry.node].shapes[entry.index] ==
            (std::vector<int64_t>{shards[worker][0].extent(), shards[worker][1].extent()}));
    }
  }
}

/*! \brief A network of one worker is the graph itself. */
void TestOneWorker() {
  const Graph graph = DrawGraph(7);
  const WorkerGrid grid({});
  const SearchResult result = SearchRecursive(graph, grid, {}, nullptr);
  CHECK(result.step_bytes.empty());
  const Program program = EmitProgram(graph, grid, result.assignment, {0}, {});
  for (const ProgramNode& node : program.nodes) CHECK(node.kind != NodeKind::kFetch);
}

void TestRefusals() {
  Graph graph;
  const int y = AddOverlap(&graph, graph.AddTensor({4, 4}, 4, false, 0));
  const WorkerGrid grid({2});
  const Assignment plan{{{0}}, {{0}, {0}}};
  OutputRequest request;
  request.tensor = y;
  CHECK_THROWS(std::invalid_argument, EmitProgram(graph, grid, plan, {1}, {request}), "is used by");
  CHECK_THROWS(std::invalid_argument, EmitProgram(graph, grid, plan, {3}, {}), "phase 3");
  request.has_layout = true;
  CHECK_THROWS(std::invalid_argument, EmitProgram(graph, grid, plan, {0}, {request}), "0 choices");
  request.layout = {2};
  CHECK_THROWS(std::invalid_argument, EmitProgram(graph, grid, plan, {0}, {request}), "choice 2");
  request.tensor = 9;
  CHECK_THROWS(std::invalid_argument, EmitProgram(graph, grid, plan, {0}, {request}), "tensor 9");
}

}  // namespace

int main() {
  TestRandomPlans();
  TestOneWorker();
  TestRefusals();
  return tofu_test::Finish("emit");
}
