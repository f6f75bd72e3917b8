/*!
 * \file training_graph.cc
 * \brief Calls NNVM's pass MXGradient with the attributes that MXNet's executor uses.
 */
#include "nnvm/graph/training_graph.h"

#include <functional>
#include <unordered_map>

namespace tofu::nnvm_layer {

const char kHeadGradientPrefix[] = "_head_grad_";

namespace {

using nnvm::NodeEntry;
using nnvm::ObjectPtr;
using nnvm::Op;

std::vector<NodeEntry> MakeHeadGradients(size_t num_outputs) {
  std::vector<NodeEntry> gradients;
  for (size_t i = 0; i < num_outputs; ++i) {
    ObjectPtr variable = nnvm::Node::Create();
    variable->attrs.name = kHeadGradientPrefix + std::to_string(i);
    gradients.emplace_back(variable, 0, 0);
  }
  return gradients;
}

/*! \brief Find arguments (not auxiliary states) of the symbol by name. */
std::vector<NodeEntry> FindArguments(const nnvm::Symbol& symbol,
                                     const std::vector<std::string>& names) {
  std::unordered_map<std::string, std::vector<ObjectPtr>> arguments;
  for (const ObjectPtr& node : symbol.ListInputs(nnvm::Symbol::kReadOnlyArgs)) {
    arguments[node->attrs.name].push_back(node);
  }
  std::vector<NodeEntry> found;
  for (const std::string& name : names) {
    const auto& candidates = arguments[name];
    CHECK(!candidates.empty()) << "no argument of the symbol is called " << name;
    CHECK_EQ(candidates.size(), 1U) << "several arguments of the symbol are called " << name;
    found.emplace_back(candidates[0], 0, 0);
  }
  return found;
}

nnvm::Graph Differentiate(const std::vector<NodeEntry>& outputs,
                          const std::vector<NodeEntry>& arguments) {
  using Aggregate = std::function<NodeEntry(std::vector<NodeEntry> && parts)>;
  nnvm::Graph graph;
  graph.outputs = outputs;
  SetGraphAttr(&graph, "grad_ys", outputs);
  SetGraphAttr(&graph, "grad_xs", arguments);
  SetGraphAttr(&graph, "grad_ys_out_grad", MakeHeadGradients(outputs.size()));
  SetGraphAttr(&graph, "grad_aggregate_fun", Aggregate(mxnet::exec::AggregateGradient));
  SetGraphAttr(&graph, "zero_ops",
               std::vector<const Op*>{Op::Get("zeros_like"), Op::Get("_zeros")});
  SetGraphAttr(&graph, "copy_op", std::string("_copy"));
  return nnvm::ApplyPass(std::move(graph), "MXGradient");
}

}  // namespace

SymbolHandle BuildTrainingGraph(SymbolHandle handle, const std::vector<std::string>& wrt) {
  const nnvm::Symbol symbol = SymbolOf(handle).Copy();
  std::vector<NodeEntry> outputs = symbol.outputs;
  if (!wrt.empty()) {
    const nnvm::Graph gradients = Differentiate(outputs, FindArguments(symbol, wrt));
    CHECK_EQ(gradients.outputs.size(), wrt.size()) << "the gradient pass lost a gradient";
    outputs.insert(outputs.end(), gradients.outputs.begin(), gradients.outputs.end());
  }
  return NewHandle(std::move(outputs));
}

}  // namespace tofu::nnvm_layer
