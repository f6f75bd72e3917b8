/*!
 * \file coarsen.cc
 * \brief The tie rule for element-wise operators.
 */
#include "core/graph/coarsen.h"

#include <algorithm>

namespace tofu {

namespace {

std::vector<int> TensorsRead(const Operator& op) {
  std::vector<int> tensors;
  for (const Input& input : op.inputs) {
    if (!input.is_read) continue;
    if (std::find(tensors.begin(), tensors.end(), input.tensor) == tensors.end())
      tensors.push_back(input.tensor);
  }
  return tensors;
}

bool CanTie(const Graph& graph, int a, int b) {
  return !graph.tensor(a).is_replicable && !graph.tensor(b).is_replicable &&
         graph.tensor(a).shape == graph.tensor(b).shape &&
         graph.TensorClass(a) != graph.TensorClass(b);
}

int TieIfPossible(Graph* graph, int a, int b) {
  if (!CanTie(*graph, a, b)) return 0;
  graph->TieTensors(a, b);
  return 1;
}

int TieInputs(Graph* graph, const std::vector<int>& inputs) {
  int first = -1;
  int ties = 0;
  for (int input : inputs) {
    if (!IsSingleUse(graph->tensor(input)) || graph->tensor(input).is_replicable) continue;
    if (first < 0) {
      first = input;
    } else {
      ties += TieIfPossible(graph, first, input);
    }
  }
  return ties;
}

}  // namespace

bool IsSingleUse(const Tensor& tensor) {
  return tensor.readers.size() == 1 && tensor.followers.empty() && tensor.output_positions.empty();
}

int Coarsen(Graph* graph, const std::vector<int>& elementwise_operators) {
  int ties = 0;
  for (int id : elementwise_operators) {
    const Operator& op = graph->op(id);
    const std::vector<int> inputs = TensorsRead(op);
    if (inputs.size() == 1 && op.outputs.size() == 1) {
      if (IsSingleUse(graph->tensor(inputs[0])))
        ties += TieIfPossible(graph, inputs[0], op.outputs[0].tensor);
    } else {
      ties += TieInputs(graph, inputs);
    }
  }
  return ties;
}

}  // namespace tofu
