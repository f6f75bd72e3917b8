/*!
 * \file graph_info.cc
 */
#include "nnvm/graph/graph_info.h"

#include <exception>
#include <unordered_set>

namespace tofu::nnvm_layer {
namespace {

using nnvm::Op;

/*! \brief Return the attributes of an operator if none is set, parsed if the parser accepts that.
 */
nnvm::NodeAttrs DefaultAttrs(const Op* op) {
  nnvm::NodeAttrs attrs;
  attrs.op = op;
  attrs.name = op->name;
  if (op->attr_parser) {
    try {
      op->attr_parser(&attrs);
    } catch (const std::exception&) {
      attrs.parsed = nnvm::any();  // a required attribute is missing
    }
  }
  return attrs;
}

/*! \brief List the resources that an operator requests on a CPU with default attributes. */
std::vector<mxnet::ResourceRequest> ListResources(const Op* op) {
  const nnvm::NodeAttrs attrs = DefaultAttrs(op);
  if (op->attr_parser && attrs.parsed.empty()) return {};
  const auto extended = GetOpAttr<mxnet::FResourceRequestEx>(op, "FResourceRequestEx");
  if (extended != nullptr) {
    return extended(attrs, mshadow::cpu::kDevMask, mxnet::DispatchMode::kFCompute);
  }
  const auto plain = GetOpAttr<mxnet::FResourceRequest>(op, "FResourceRequest");
  return plain == nullptr ? std::vector<mxnet::ResourceRequest>() : plain(attrs);
}

}  // namespace

std::vector<std::string> ListInputNames(const Op* op) {
  const nnvm::NodeAttrs attrs = DefaultAttrs(op);
  const auto list = GetOpAttr<nnvm::FListInputNames>(op, "FListInputNames");
  if (list != nullptr && (!op->attr_parser || !attrs.parsed.empty())) return list(attrs);
  std::vector<std::string> names;
  for (const auto& argument : op->arguments) {
    if (argument.type_info_str.find("Symbol") != std::string::npos) names.push_back(argument.name);
  }
  return names;
}

bool IsRandom(const Op* op) {
  for (const mxnet::ResourceRequest& resource : ListResources(op)) {
    if (resource.type != mxnet::ResourceRequest::kTempSpace) return true;
  }
  return false;
}

std::vector<uint32_t> ListMutableInputs(const nnvm::NodeAttrs& attrs) {
  const auto mutate = GetOpAttr<nnvm::FMutateInputs>(attrs.op, "FMutateInputs");
  return mutate == nullptr ? std::vector<uint32_t>() : mutate(attrs);
}

std::vector<uint32_t> ListIgnoredInputs(const nnvm::NodeAttrs& attrs) {
  static const auto& ignored = Op::GetAttr<nnvm::FIgnoreInputs>("FIgnoreInputs");
  return ignored.contains(attrs.op) ? ignored[attrs.op](attrs) : std::vector<uint32_t>();
}

void CheckEdges(SymbolHandle symbol) {
  std::unordered_set<const nnvm::Node*> seen;
  const auto check_entry = [](const nnvm::NodeEntry& entry, const std::string& reader) {
    CHECK_LT(entry.index, entry.node->num_outputs())
        << reader << " takes output number " << entry.index << " of " << entry.node->attrs.name
        << ", which has " << entry.node->num_outputs();
  };
  nnvm::DFSVisit(SymbolOf(symbol).outputs, [&](const nnvm::ObjectPtr& node) {
    const std::string& name = node->attrs.name;
    for (const nnvm::NodeEntry& entry : node->inputs) {
      CHECK(seen.count(entry.node.get()) != 0) << name << " is an input of itself, over others";
      check_entry(entry, name);
    }
    seen.insert(node.get());
    const uint32_t wanted = node->is_variable() ? 0 : node->num_inputs();
    if (wanted != nnvm::kVarg &&
        node->attrs.subgraphs.empty()) {  // loops count their inputs differently
      CHECK_EQ(node->inputs.size(), wanted) << name << " has other inputs than its operator needs";
    }
    if (node->is_variable()) return;
    for (uint32_t slot : ListMutableInputs(node->attrs)) {
      CHECK_LT(slot, node->inputs.size()) << name << " lacks an input that its operator changes";
    }
  });
  for (const nnvm::NodeEntry& entry : SymbolOf(symbol).outputs) check_entry(entry, "the model");
}

std::vector<std::vector<std::string>> ListMonitoredInputs(SymbolHandle symbol) {
  const nnvm::Graph graph = GraphOf(symbol);
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  std::vector<std::vector<std::string>> names(index.num_nodes());
  for (uint32_t id = 0; id < names.size(); ++id) {
    const nnvm::Node& node = *index[id].source;
    if (node.is_variable()) continue;
    const auto list = GetOpAttr<nnvm::FListInputNames>(node.op(), "FListInputNames");
    if (list != nullptr) names[id] = list(node.attrs);
    for (size_t slot = names[id].size(); slot < node.inputs.size(); ++slot) {
      names[id].push_back("input" + std::to_string(slot));
    }
  }
  return names;
}

std::vector<EntryRef> ListOutputs(SymbolHandle symbol) {
  const nnvm::Graph graph = GraphOf(symbol);
  std::vector<EntryRef> outputs;
  for (const auto& entry : graph.indexed_graph().outputs()) {
    outputs.emplace_back(entry.node_id, entry.index);
  }
  return outputs;
}

}  // namespace tofu::nnvm_layer
