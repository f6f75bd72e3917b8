/*!
 * \file mxnet_graph.cc
 * \brief Bindings of training_graph, graph_info and inference.
 */
#include <optional>

#include "bindings/mxnet_conversions.h"
#include "nnvm/execution/operator_clone.h"
#include "nnvm/graph/graph_info.h"
#include "nnvm/graph/training_graph.h"

namespace tofu::bindings {
namespace {

namespace py = pybind11;
using namespace nnvm_layer;  // NOLINT(build/namespaces)

py::dict NodeToPython(uint32_t id, const NodeInfo& node) {
  py::dict result;
  result["id"] = id;
  result["name"] = node.name;
  result["op"] = node.op;
  result["attrs"] = node.attrs;
  result["inputs"] = node.inputs;
  result["control_deps"] = node.control_deps;
  result["num_outputs"] = node.num_outputs;
  result["entry"] = node.entry;
  result["is_backward"] = node.is_backward;
  result["is_layer_backward"] = node.is_layer_backward;
  result["is_aux"] = node.is_aux;
  result["mutable_inputs"] = node.mutable_inputs;
  result["ignored_inputs"] = node.ignored_inputs;
  return result;
}

py::list NodesToPython(SymbolHandle symbol) {
  py::list result;
  uint32_t id = 0;
  for (const NodeInfo& node : ListNodes(symbol)) result.append(NodeToPython(id++, node));
  return result;
}

py::dict OperatorToPython(const std::string& op) {
  const OperatorInfo info = DescribeOperator(op);
  py::dict result;
  result["is_backward"] = info.is_backward;
  result["is_layer_backward"] = info.is_layer_backward;
  result["stateful"] = info.stateful;
  result["has_infer_shape"] = info.has_infer_shape;
  result["is_random"] = info.is_random;
  result["input_names"] = info.input_names;
  return result;
}

py::tuple InferToPython(SymbolHandle symbol, const ShapesByName& shapes, const TypesByName& types) {
  const nnvm::Graph graph = InferGraph(GraphOf(symbol), shapes, types);
  py::list found;
  for (const mxnet::TShape& shape : graph.GetAttr<mxnet::ShapeVector>("shape")) {
    found.append(ToPython(FromShape(shape)));
  }
  return py::make_tuple(found, graph.GetAttr<nnvm::DTypeVector>("dtype"));
}

py::object InferOperatorToPython(const std::string& op,
                                 const std::unordered_map<std::string, std::string>& attrs,
                                 const std::vector<std::optional<Extents>>& inputs) {
  std::vector<MaybeShape> shapes;
  for (const auto& input : inputs) {
    shapes.push_back(MaybeShape{input.has_value(), input.value_or(Extents())});
  }
  const OperatorShapes result = InferOperator(op, attrs, shapes);
  if (!result.available) return py::none();
  py::list outputs;
  for (const MaybeShape& shape : result.outputs) outputs.append(ToPython(shape));
  return outputs;
}

/*! \brief (operator, attributes) that run the kernel which execution graphs run in place of op's.
 */
py::object PlainKernelToPython(const std::string& name, const std::vector<Extents>& shapes,
                               const std::vector<int>& types) {
  const nnvm::Op* op = nnvm::Op::Get(name);
  if (!NeedsPlainKernel(op)) return py::none();
  nnvm::NodeAttrs attrs;
  SetCloneOutputs(shapes, types, &attrs);
  const std::map<std::string, std::string> outputs(attrs.dict.begin(), attrs.dict.end());
  return py::make_tuple(CloneOperator(op)->name, outputs);
}

/*! \brief Return the inputs that a kernel changes although MXNet declares them as only read. */
std::vector<uint32_t> ListOverwrittenInputs(
    const std::string& name, const std::unordered_map<std::string, std::string>& attributes) {
  nnvm::NodeAttrs attrs;
  attrs.op = nnvm::Op::Get(name);
  attrs.dict = attributes;
  std::vector<uint32_t> inputs = ListSpoiledInputs(attrs);
  for (uint32_t input : ListSetInputs(attrs)) inputs.push_back(input);
  return inputs;
}

}  // namespace

void RegisterGraph(py::module_* module) {
  module->attr("HEAD_GRADIENT_PREFIX") = py::str(kHeadGradientPrefix);
  module->def("training_graph", BuildTrainingGraph, py::arg("symbol"), py::arg("wrt"));
  module->def("check_edges", CheckEdges, py::arg("symbol"));
  module->def("nodes", NodesToPython, py::arg("symbol"));
  module->def("monitored_inputs", ListMonitoredInputs, py::arg("symbol"));
  module->def("outputs", ListOutputs, py::arg("symbol"));
  module->def("infer", InferToPython, py::arg("symbol"), py::arg("shapes"), py::arg("dtypes"));
  module->def("infer_output_storage", InferOutputStorage, py::arg("symbol"));
  module->def("infer_operator", InferOperatorToPython, py::arg("op"), py::arg("attrs"),
              py::arg("input_shapes"));
  module->def("operator_info", OperatorToPython, py::arg("op"));
  module->def("overwritten_inputs", ListOverwrittenInputs, py::arg("op"), py::arg("attrs"));
  module->def("plain_kernel", PlainKernelToPython, py::arg("op"), py::arg("shapes"),
              py::arg("types"));
}

}  // namespace tofu::bindings
