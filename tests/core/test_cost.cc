/*!
 * \file test_cost.cc
 * \brief The bytes of plans against counting cell by cell.
 */
#include <numeric>
#include <stdexcept>

#include "check.h"
#include "core/cost.h"
#include "sample_graphs.h"

namespace {

using namespace tofu;       // NOLINT(build/namespaces)
using namespace tofu_test;  // NOLINT(build/namespaces)

int64_t CountMissing(const Cells& needed, const Cells& held) {
  int64_t missing = 0;
  for (const Cell& cell : needed) missing += held.count(cell) == 0;
  return missing;
}

Cells Inside(const Boxes& regions, int worker, const std::vector<int64_t>& shape) {
  const Boxes clipped = ClipBoxes(regions, shape);
  return CellsOf(clipped[worker], clipped.rank());
}

/*! \brief Every group of the sample graphs has one operator that reads each tensor once. */
int64_t CountReads(const Graph& graph, const WorkerGrid& grid, const Assignment& plan) {
  int64_t bytes = 0;
  for (int id = 0; id < graph.num_operators(); ++id) {
    const Operator& op = graph.op(id);
    const Boxes axes = SplitBoxes(op.axis_extents, grid, plan.operators[id]);
    for (const Input& input : op.inputs) {
      const Tensor& tensor = graph.tensor(input.tensor);
      const Boxes regions = ComputeRegions(input.rows, tensor.shape, axes, plan.operators[id]);
      const Boxes shards = SplitBoxes(tensor.shape, grid, plan.tensors[input.tensor]);
      for (int worker = 0; worker < grid.num_workers(); ++worker) {
        bytes += tensor.element_bytes * CountMissing(Inside(regions, worker, tensor.shape),
                                                     CellsOf(shards[worker], shards.rank()));
      }
    }
  }
  return bytes;
}

bool IsReplicatedAt(const Output& output, int axis) {
  return axis == kReplicated || output.combine[axis] == Combine::kReplicate;
}

int64_t CountWrites(const Graph& graph, const WorkerGrid& grid, const Operator& op,
                    const Output& output, const std::vector<int>& choice,
                    const std::vector<int>& layout) {
  int64_t bytes = 0;
  const Tensor& tensor = graph.tensor(output.tensor);
  const Boxes axes = SplitBoxes(op.axis_extents, grid, choice);
  const Boxes regions = ComputeRegions(output.rows, tensor.shape, axes, choice);
  const Boxes shards = SplitBoxes(tensor.shape, grid, layout);
  const bool scatters = HasReplicatedStep(layout) && IsPartialResult(output, choice);
  const Boxes sums = scatters ? ScatterShards(shards, tensor.shape, grid, layout) : shards;
  for (int worker = 0; worker < grid.num_workers(); ++worker) {
    const Cells summed = CellsOf(sums[worker], sums.rank());
    for (int holder = 0; holder < grid.num_workers(); ++holder) {
      bool exchanges = holder != worker;
      for (int step = 0; step < grid.num_steps(); ++step) {
        exchanges = exchanges && (!IsReplicatedAt(output, choice[step]) ||
                                  grid.digit(holder, step) == grid.digit(worker, step));
      }
      if (!exchanges) continue;
      const Cells produced = Inside(regions, holder, tensor.shape);
      bytes += tensor.element_bytes *
               (static_cast<int64_t>(summed.size()) - CountMissing(summed, produced));
    }
    bytes += tensor.element_bytes * (Volume(shards[worker], 2) - Volume(sums[worker], 2));
  }
  return bytes;
}

int64_t CountWrites(const Graph& graph, const WorkerGrid& grid, const Assignment& plan) {
  int64_t bytes = 0;
  for (int id = 0; id < graph.num_operators(); ++id) {
    const Operator& op = graph.op(id);
    for (const Output& output : op.outputs) {
      if (!graph.tensor(output.tensor).IsRead()) continue;
      bytes +=
          CountWrites(graph, grid, op, output, plan.operators[id], plan.tensors[output.tensor]);
    }
  }
  return bytes;
}

void TestEvaluateAgainstCells() {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const Graph graph = DrawGraph(seed);
    const WorkerGrid grid(seed % 2 ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{3, 2});
    const Assignment plan = DrawAssignment(graph, grid, seed);
    const PlanCost cost = EvaluatePlan(graph, grid, plan);
    CHECK(cost.total_bytes == CountReads(graph, grid, plan) + CountWrites(graph, grid, plan));
    CHECK(std::accumulate(cost.step_bytes.begin(), cost.step_bytes.end(), int64_t{0}) ==
          cost.total_bytes);
    int64_t itemised = 0;
    for (const CostItem& item : cost.items) itemised += item.bytes;
    CHECK(itemised == cost.total_bytes);
  }
}

/*! \brief Splitting the reduced axis of a product of S bytes on n workers moves (n - 1) S into any
 * layout. */
void TestReduceScatterOfAProduct() {
  Graph graph;
  const int x = graph.AddTensor({12, 12}, 4, false, 0);
  const int y = AddMatmul(&graph, x, graph.AddTensor({12, 12}, 4, false, 0));
  graph.MarkOutput(y);
  const int64_t size = 12 * 12 * 4;
  for (int64_t workers : {2, 3, 4, 6}) {
    const WorkerGrid grid({workers});
    CHECK(EvaluatePlan(graph, grid, {{{2}}, {{1}, {1}, {0}}}).total_bytes == (workers - 1) * size);
    CHECK(EvaluatePlan(graph, grid, {{{2}}, {{1}, {1}, {-1}}}).total_bytes ==
          2 * (workers - 1) * size);
    CHECK(EvaluatePlan(graph, grid, {{{0}}, {{0}, {-1}, {0}}}).total_bytes == 0);
    CHECK(EvaluatePlan(graph, grid, {{{0}}, {{0}, {0}, {0}}}).total_bytes == (workers - 1) * size);
  }
}

void TestUnreadOutputsAreFree() {
  Graph graph;
  AddOverlap(&graph, graph.AddTensor({4, 4}, 4, false, 0));
  CHECK(EvaluatePlan(graph, WorkerGrid({2}), {{{1}}, {{1}, {0}}}).total_bytes == 0);
  graph.MarkOutput(1);
  CHECK(EvaluatePlan(graph, WorkerGrid({2}), {{{1}}, {{1}, {1}}}).total_bytes > 0);
}

void TestPlansThatDoNotFit() {
  Graph graph;
  AddOverlap(&graph, graph.AddTensor({4, 4}, 4, false, 0));
  const WorkerGrid grid({2});
  CHECK_THROWS(std::invalid_argument, EvaluatePlan(graph, grid, {{}, {{0}, {0}}}), "0 operators");
  CHECK_THROWS(std::invalid_argument, EvaluatePlan(graph, grid, {{{0, 0}}, {{0}, {0}}}),
               "operator 0 has 2 choices");
  CHECK_THROWS(std::invalid_argument, EvaluatePlan(graph, grid, {{{0}}, {{0}, {3}}}), "tensor 1");
  graph.TieTensors(0, 0);
}

}  // namespace

int main() {
  TestEvaluateAgainstCells();
  TestReduceScatterOfAProduct();
  TestUnreadOutputsAreFree();
  TestPlansThatDoNotFit();
  return tofu_test::Finish("cost");
}
