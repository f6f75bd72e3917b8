/*!
 * \file inference.cc
 */
#include "nnvm/graph/inference.h"

namespace tofu::nnvm_layer {

const char kShapeAttribute[] = "__shape__";
const char kTypeAttribute[] = "__dtype__";
const char kStorageAttribute[] = "__storage_type__";

namespace {

using nnvm::Op;

constexpr int kUnknownType = -1;

/*! \brief Values in the order of the graph's inputs, `unknown` for those without a name in `given`.
 */
template <typename Value, typename Given, typename Convert>
std::vector<Value> InInputOrder(const nnvm::IndexedGraph& index,
                                const std::map<std::string, Given>& given, const Value& unknown,
                                Convert convert) {
  std::vector<Value> values(index.input_nodes().size(), unknown);
  size_t used = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto found = given.find(index[index.input_nodes()[i]].source->attrs.name);
    if (found == given.end()) continue;
    values[i] = convert(found->second);
    ++used;
  }
  if (used < given.size()) {
    std::map<std::string, Given> left = given;
    for (uint32_t id : index.input_nodes()) left.erase(index[id].source->attrs.name);
    CHECK(left.empty()) << "no input of the graph is called " << left.begin()->first;
  }
  return values;
}

}  // namespace

mxnet::TShape ToShape(const Extents& extents) {
  mxnet::TShape shape(static_cast<int>(extents.size()), -1);
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] > 0) shape[d] = extents[d];
  }
  return shape;
}

MaybeShape FromShape(const mxnet::TShape& shape) {
  MaybeShape result;
  result.has_rank = mxnet::ndim_is_known(shape);
  if (result.has_rank) result.extents.assign(shape.begin(), shape.end());
  return result;
}

nnvm::Graph InferGraphTypes(nnvm::Graph graph, const TypesByName& types) {
  nnvm::DTypeVector given =
      InInputOrder<int>(graph.indexed_graph(), types, kUnknownType, [](int type) { return type; });
  return mxnet::exec::InferType(std::move(graph), std::move(given), kTypeAttribute);
}

nnvm::Graph InferGraph(nnvm::Graph graph, const ShapesByName& shapes, const TypesByName& types) {
  mxnet::ShapeVector given =
      InInputOrder<mxnet::TShape>(graph.indexed_graph(), shapes, mxnet::TShape(), ToShape);
  graph = mxnet::exec::InferShape(std::move(graph), std::move(given), kShapeAttribute);
  // Without variables there are no types to pass.
  const bool has_variables = !graph.indexed_graph().input_nodes().empty();
  if (!types.empty() || !has_variables) return InferGraphTypes(std::move(graph), types);
  const size_t num_entries = graph.indexed_graph().num_node_entries();
  SetGraphAttr(&graph, "dtype", nnvm::DTypeVector(num_entries, kUnknownType));
  return graph;
}

std::vector<int> InferOutputStorage(SymbolHandle symbol) {
  nnvm::Graph graph = GraphOf(symbol);
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  std::vector<int> given;  // unknown types are read from the attribute
  for (uint32_t id : index.input_nodes()) {
    const bool has_type = FindText(index[id].source->attrs, kStorageAttribute) != nullptr;
    given.push_back(has_type ? mxnet::kUndefinedStorage : mxnet::kDefaultStorage);
  }
  SetGraphAttr(&graph, "dev_mask", std::vector<int>(index.num_nodes(), mxnet::Context::kCPU));
  graph = mxnet::exec::InferStorageType(std::move(graph), std::move(given), kStorageAttribute);
  const auto& of_entries = graph.GetAttr<std::vector<int>>("storage_type");
  std::vector<int> types;
  for (const nnvm::NodeEntry& output : graph.outputs)
    types.push_back(of_entries[graph.indexed_graph().entry_id(output)]);
  return types;
}

std::optional<std::vector<MaybeShape>> InferOperator(
    const std::string& name, const std::unordered_map<std::string, std::string>& dict,
    const std::vector<MaybeShape>& inputs) {
  const Op* op = Op::Get(name);
  const auto infer = Op::GetAttr<mxnet::FInferShape>("FInferShape").get(op, nullptr);
  // A backward operator without a parser uses what its forward operator parsed.
  if (infer == nullptr || op->attr_parser == nullptr) {
    const bool is_backward = Op::GetAttr<nnvm::TIsBackward>("TIsBackward").get(op, false);
    if (infer == nullptr || is_backward) return std::nullopt;
  }
  nnvm::NodeAttrs attrs;
  attrs.op = op;
  attrs.name = name;
  attrs.dict = dict;
  if (op->attr_parser) op->attr_parser(&attrs);

  mxnet::ShapeVector input_shapes(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].has_rank) input_shapes[i] = ToShape(inputs[i].extents);
  }
  const uint32_t num_outputs =
      op->get_num_outputs == nullptr ? op->num_outputs : op->get_num_outputs(attrs);
  mxnet::ShapeVector output_shapes(num_outputs);
  infer(attrs, &input_shapes, &output_shapes);
  std::vector<MaybeShape> outputs(num_outputs);
  std::transform(output_shapes.begin(), output_shapes.end(), outputs.begin(), FromShape);
  return outputs;
}

}  // namespace tofu::nnvm_layer
