/*!
 * \file sample_graphs.h
 * \brief Small graphs for the C++ tests.
 */
#ifndef TOFU_TESTS_CORE_SAMPLE_GRAPHS_H_
#define TOFU_TESTS_CORE_SAMPLE_GRAPHS_H_

#include <utility>
#include <vector>

#include "check.h"
#include "core/cost/cost.h"
#include "core/graph/graph.h"

namespace tofu_test {

using tofu::Combine;
using tofu::Graph;
using tofu::Operator;
using tofu::Row;

/*! \brief Return the row of a plain index. */
inline Row Index(int axis) { return {{{axis, 1}}, 0, 1}; }

inline tofu::Input Reads(int tensor, std::vector<Row> rows) {
  tofu::Input input;
  input.tensor = tensor;
  input.rows = std::move(rows);
  return input;
}

/*! \brief y[b, o] = sum over i of x[b, i] * w[o, i]; returns y. */
inline int AddMatmul(Graph* graph, int x, int w) {
  const int64_t batch = graph->tensor(x).shape[0];
  const int64_t inner = graph->tensor(x).shape[1];
  const int64_t outer = graph->tensor(w).shape[0];
  const int y = graph->AddTensor({batch, outer}, 4, false, 1);
  Operator op;
  op.axis_extents = {batch, outer, inner};
  op.inputs = {Reads(x, {Index(0), Index(2)}), Reads(w, {Index(1), Index(2)})};
  op.outputs = {{y, {Index(0), Index(1)}, {Combine::kConcat, Combine::kConcat, Combine::kReduce}}};
  op.group = graph->num_operators();
  op.label = 1;
  graph->AddOperator(std::move(op));
  return y;
}

/*! \brief y[b, s * 2 + k - 1] += x[b, s] over k = 0 .. 2; returns y of twice the columns. */
inline int AddOverlap(Graph* graph, int x) {
  const std::vector<int64_t> shape = graph->tensor(x).shape;
  const int y = graph->AddTensor({shape[0], 2 * shape[1]}, 4, false, 2);
  Operator op;
  op.axis_extents = shape;
  op.inputs = {Reads(x, {Index(0), Index(1)})};
  op.outputs = {{y, {Index(0), {{{1, 2}}, -1, 2}}, {Combine::kConcat, Combine::kOverlapAdd}}};
  op.group = graph->num_operators();
  op.label = 2;
  graph->AddOperator(std::move(op));
  return y;
}

/*! \brief y = the element-wise sum of tensors of one shape. */
inline int AddSum(Graph* graph, const std::vector<int>& tensors) {
  const std::vector<int64_t> shape = graph->tensor(tensors[0]).shape;
  const int y = graph->AddTensor(shape, 4, false, 3);
  Operator op;
  op.axis_extents = shape;
  for (int tensor : tensors) op.inputs.push_back(Reads(tensor, {Index(0), Index(1)}));
  op.outputs = {{y, {Index(0), Index(1)}, {Combine::kConcat, Combine::kConcat}}};
  op.group = graph->num_operators();
  op.label = 3;
  graph->AddOperator(std::move(op));
  return y;
}

/*! \brief Draw a chain or a fork of the operators above; the last tensor is the output. */
inline Graph DrawGraph(uint64_t seed) {
  Random random(seed);
  Graph graph;
  std::vector<int> tensors = {graph.AddTensor({random.Draw(4, 9), random.Draw(4, 9)}, 4, false, 0)};
  for (int64_t i = random.Draw(1, 4); i > 0; --i) {
    const int x = tensors[random.Draw(0, static_cast<int64_t>(tensors.size()) - 1)];
    const std::vector<int64_t> shape = graph.tensor(x).shape;
    switch (random.Draw(0, 2)) {
      case 0:
        tensors.push_back(
            AddMatmul(&graph, x, graph.AddTensor({random.Draw(4, 9), shape[1]}, 2, false, 0)));
        break;
      case 1:
        tensors.push_back(AddOverlap(&graph, x));
        break;
      default:
        tensors.push_back(AddSum(&graph, {x, graph.AddTensor(shape, 8, false, 0)}));
    }
  }
  graph.MarkOutput(tensors.back());
  return graph;
}

/*! \brief Draw any feasible plan, sometimes with unneeded replication. */
inline tofu::Assignment DrawAssignment(const Graph& graph, const tofu::WorkerGrid& grid,
                                       uint64_t seed) {
  Random random(seed);
  const auto draw = [&](const std::vector<int>& choices) {
    if (random.Draw(0, 9) == 0) return tofu::kReplicated;
    return choices[random.Draw(0, static_cast<int64_t>(choices.size()) - 1)];
  };
  tofu::Assignment assignment;
  for (int id = 0; id < graph.num_operators(); ++id) {
    std::vector<int> choice;
    while (static_cast<int>(choice.size()) < grid.num_rounds()) {
      choice.push_back(draw(ListChoices(graph, grid, {false, id}, choice)));
    }
    assignment.operators.push_back(choice);
  }
  for (int id = 0; id < graph.num_tensors(); ++id) {
    std::vector<int> layout;
    while (static_cast<int>(layout.size()) < grid.num_rounds()) {
      layout.push_back(draw(ListChoices(graph, grid, {true, id}, layout)));
    }
    assignment.tensors.push_back(layout);
  }
  return assignment;
}

}  // namespace tofu_test

#endif  // TOFU_TESTS_CORE_SAMPLE_GRAPHS_H_
