/*!
 * \file mxnet_graph.cc
 * \brief Bindings of training_graph, graph_info and inference.
 */
#include "bindings/mxnet_conversions.h"
#include "nnvm/execution/operator_clone.h"
#include "nnvm/graph/graph_info.h"
#include "nnvm/graph/training_graph.h"

namespace tofu::bindings {
namespace {

namespace py = pybind11;
using namespace nnvm_layer;  // NOLINT(build/namespaces)

/*! \brief A node of a graph, in the topological order of nnvm::IndexedGraph; see tofu/_mxnet.pyi.
 */
py::dict NodeToPython(const nnvm::IndexedGraph& index, uint32_t id) {
  const nnvm::Node& node = *index[id].source;
  const nnvm::Op* op = node.op();
  std::vector<EntryRef> inputs;
  for (const auto& entry : index[id].inputs) inputs.emplace_back(entry.node_id, entry.index);
  py::dict result;
  result["id"] = id;
  result["name"] = node.attrs.name;
  result["op"] = op == nullptr ? "null" : op->name;
  result["attrs"] = node.attrs.dict;
  result["inputs"] = inputs;
  result["control_deps"] =
      std::vector<uint32_t>(index[id].control_deps.begin(), index[id].control_deps.end());
  result["num_outputs"] = node.num_outputs();
  result["entry"] = index.entry_id(id, 0);  // position of output 0 among all entries of the graph
  result["is_backward"] = GetOpAttr<nnvm::TIsBackward>(op, "TIsBackward");
  result["is_layer_backward"] = GetOpAttr<bool>(op, "TIsLayerOpBackward");
  result["is_aux"] = index.mutable_input_nodes().count(id) != 0;
  result["mutable_inputs"] = ListMutableInputs(node.attrs);
  result["ignored_inputs"] = ListIgnoredInputs(node.attrs);
  return result;
}

py::list NodesToPython(SymbolHandle symbol) {
  const nnvm::Graph graph = GraphOf(symbol);
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  py::list result;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) result.append(NodeToPython(index, id));
  return result;
}

/*! \throw dmlc::Error if no operator has this name */
py::dict OperatorToPython(const std::string& name) {
  const nnvm::Op* op = nnvm::Op::Get(name);
  py::dict result;
  result["is_backward"] = GetOpAttr<nnvm::TIsBackward>(op, "TIsBackward");
  result["is_layer_backward"] = GetOpAttr<bool>(op, "TIsLayerOpBackward");
  result["stateful"] = nnvm::Op::GetAttr<mxnet::FCreateOpState>("FCreateOpState").contains(op);
  result["has_infer_shape"] = nnvm::Op::GetAttr<mxnet::FInferShape>("FInferShape").contains(op);
  result["is_random"] = IsRandom(op);
  result["input_names"] = ListInputNames(op);
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
  const auto inferred = InferOperator(op, attrs, shapes);
  if (!inferred) return py::none();
  py::list outputs;
  for (const MaybeShape& shape : *inferred) outputs.append(ToPython(shape));
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
