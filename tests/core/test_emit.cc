/*!
 * \file test_emit.cc
 * \brief Programs move the plan's bytes, and sources are inside their entries.
 */
#include <numeric>
#include <stdexcept>

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

/*! \brief Inputs come before their readers, and only fetches read other workers. */
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

void TestProgramsMoveTheBytesOfTheirPlans() {
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
    CheckInputs(program);
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

void TestOneWorkerNeedsNoFetches() {
  const Graph graph = DrawGraph(7);
  const WorkerGrid grid({});
  const SearchResult result = SearchRecursive(graph, grid, {}, nullptr);
  CHECK(result.round_bytes.empty());
  const Program program = EmitProgram(graph, grid, result.assignment, {0}, {});
  for (const ProgramNode& node : program.nodes) CHECK(node.kind != NodeKind::kFetch);
}

void TestWrongRequestsAreRefused() {
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
  TestProgramsMoveTheBytesOfTheirPlans();
  TestOneWorkerNeedsNoFetches();
  TestWrongRequestsAreRefused();
  return tofu_test::Finish("emit");
}
