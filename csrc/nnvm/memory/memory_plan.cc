/*!
 * \file memory_plan.cc
 */
#include "nnvm/memory/memory_plan.h"

#include <algorithm>
#include <utility>

#include "nnvm/execution/execution_graph.h"
#include "nnvm/execution/marked_outputs.h"
#include "nnvm/fetch/place_device.h"
#include "nnvm/graph/graph_info.h"

namespace tofu::nnvm_layer {
namespace {

using nnvm::Graph;
using nnvm::IndexedGraph;

// MXNet's pool consists of float32 arrays, so sizes are multiples of 4 bytes.
constexpr int64_t kPoolAlignment = 4;
// Marks of MXNet's planner: to be placed, and placed elsewhere.
constexpr int kToBePlaced = -1;
constexpr int kElsewhere = -2;

void ListGroups(const IndexedGraph& index, PlannedGraph* planned) {
  std::map<std::string, int> numbers;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const std::string* group = FindText(index[id].source->attrs, kGroupAttribute);
    const std::string name = group == nullptr ? "" : *group;
    const auto added = numbers.emplace(name, static_cast<int>(planned->groups.size()));
    if (added.second) planned->groups.push_back(name);
    planned->group_of_node.push_back(added.first->second);
  }
}

/*! \brief Copy the graph without control dependencies. Clones carry their shapes, so inference does
 * not need them. */
Graph CopyWithoutOrder(SymbolHandle symbol, nnvm::Symbol* copy) {
  *copy = SymbolOf(symbol).Copy();
  nnvm::DFSVisit(copy->outputs, [](const nnvm::ObjectPtr& node) { node->control_deps.clear(); });
  Graph graph;
  graph.outputs = copy->outputs;
  return graph;
}

EntryKind KindOf(const IndexedGraph& index, uint32_t id, const std::vector<uint32_t>& transit,
                 uint32_t output) {
  if (index[id].source->is_variable()) {
    return index.mutable_input_nodes().count(id) ? EntryKind::kAuxiliary : EntryKind::kArgument;
  }
  const bool passes = std::find(transit.begin(), transit.end(), output) != transit.end();
  return passes ? EntryKind::kTransit : EntryKind::kTensor;
}

/*! \brief Return, for each entry, the last node that reads its elements. An entry without readers
 * has the node that computes it; variables and outputs of the graph have the number of nodes. */
std::vector<uint32_t> FindLastReaders(const nnvm::IndexedGraph& index) {
  std::vector<uint32_t> last(index.num_node_entries(), 0);
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    for (uint32_t output = 0; output < node.num_outputs(); ++output) {
      last[index.entry_id(id, output)] = node.is_variable() ? index.num_nodes() : id;
    }
    if (node.is_variable()) continue;
    const std::vector<uint32_t> unread = ListIgnoredInputs(node.attrs);
    for (uint32_t input = 0; input < index[id].inputs.size(); ++input) {
      if (std::find(unread.begin(), unread.end(), input) != unread.end()) continue;
      uint32_t& reader = last[index.entry_id(index[id].inputs[input])];
      reader = std::max(reader, id);
    }
  }
  for (const auto& entry : index.outputs()) last[index.entry_id(entry)] = index.num_nodes();
  return last;
}

/*! \brief Return the marks of all entries, which MXNet's planner reads. */
nnvm::StorageVector MarkEntries(const IndexedGraph& index, bool holds_transit) {
  nnvm::StorageVector storage(index.num_node_entries(), kToBePlaced);
  if (holds_transit) return storage;
  for (uint32_t entry : ListMarkedEntries(OutputMark::kTransit, index)) storage[entry] = kElsewhere;
  return storage;
}

}  // namespace

KernelMemory DescribeKernel(const nnvm::NodeAttrs& attrs) {
  static const auto& options = nnvm::Op::GetAttr<nnvm::FInplaceOption>("FInplaceOption");
  static const auto& identities = nnvm::Op::GetAttr<nnvm::FInplaceIdentity>("FInplaceIdentity");
  KernelMemory kernel;
  kernel.ignored = ListIgnoredInputs(attrs);
  kernel.is_sum = IsSumInPlace(attrs.op);
  if (!options.contains(attrs.op)) return kernel;
  std::vector<bool> is_identity;
  if (identities.contains(attrs.op)) is_identity = identities[attrs.op](attrs);
  for (const auto& pair : options[attrs.op](attrs)) {
    const size_t number = kernel.in_place.size();
    kernel.in_place.push_back({static_cast<uint32_t>(pair.first),
                               static_cast<uint32_t>(pair.second),
                               number < is_identity.size() && is_identity[number]});
  }
  return kernel;
}

PlannedGraph PlanGraph(SymbolHandle symbol, const ShapesByName& shapes, const TypesByName& types,
                       const MemoryPlanOptions& options) {
  PlannedGraph planned;
  Graph graph =
      options.keeps_order ? GraphOf(symbol) : CopyWithoutOrder(symbol, &planned.unordered);
  graph = InferGraphTypes(InferGraph(std::move(graph), shapes, {}), types);
  ListGroups(graph.indexed_graph(), &planned);
  SetGraphAttr(&graph, "device", planned.group_of_node);
  SetGraphAttr(&graph, "storage", MarkEntries(graph.indexed_graph(), options.holds_transit));
  planned.graph =
      mxnet::exec::DetectInplaceAddTo(nnvm::ApplyPass(std::move(graph), "MXPlanMemory"));
  return planned;
}

int64_t EntryBytes(const nnvm::Graph& graph, uint32_t entry, const nnvm::Node& node) {
  const mxnet::TShape& shape = graph.GetAttr<mxnet::ShapeVector>("shape")[entry];
  const int type = graph.GetAttr<nnvm::DTypeVector>("dtype")[entry];
  CHECK(mxnet::shape_is_known(shape) && type != -1)
      << "the memory of " << node.attrs.name << " cannot be planned: its shape is " << shape
      << ", its type code " << type;
  return static_cast<int64_t>(shape.Size() * mshadow::mshadow_sizeof(type));
}

MemoryPlan ListEntries(const PlannedGraph& planned) {
  const Graph& graph = planned.graph;
  const IndexedGraph& index = graph.indexed_graph();
  const auto& storage = graph.GetAttr<nnvm::StorageVector>("storage_id");
  const std::vector<uint32_t> last = FindLastReaders(index);
  MemoryPlan plan;
  plan.groups = planned.groups;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    plan.nodes.push_back(node.attrs.name);
    const std::vector<uint32_t> transit = ListMarkedOutputs(OutputMark::kTransit, node.attrs);
    for (uint32_t output = 0; output < node.num_outputs(); ++output) {
      const uint32_t entry = index.entry_id(id, output);
      PlannedEntry row;
      row.node = id;
      row.output = output;
      row.kind = KindOf(index, id, transit, output);
      row.group = planned.group_of_node[id];
      row.bytes = EntryBytes(graph, entry, node);
      row.buffer = node.is_variable() ? kElsewhere : storage[entry];
      row.last = last[entry];
      plan.entries.push_back(row);
    }
  }
  return plan;
}

int64_t RoundUpBuffer(int64_t bytes) {
  return (bytes + kPoolAlignment - 1) / kPoolAlignment * kPoolAlignment;
}

std::map<std::string, DeviceMemory> SumMemory(const MemoryPlan& plan) {
  std::map<std::string, DeviceMemory> result;
  std::vector<DeviceMemory*> devices;
  for (const std::string& group : plan.groups) devices.push_back(&result[group]);
  std::map<std::pair<int, int>, int64_t> buffers;  // by group and number
  for (const PlannedEntry& entry : plan.entries) {
    DeviceMemory* device = devices[entry.group];
    if (entry.kind == EntryKind::kArgument) device->arguments += entry.bytes;
    if (entry.kind == EntryKind::kAuxiliary) device->auxiliary += entry.bytes;
    if (entry.kind == EntryKind::kTransit) device->transit += entry.bytes;
    if (entry.kind == EntryKind::kTensor || entry.kind == EntryKind::kTransit) {
      device->unshared += entry.bytes;
    }
    if (entry.buffer < 0) continue;
    int64_t& buffer = buffers[{entry.group, entry.buffer}];
    buffer = std::max(buffer, entry.bytes);
  }
  for (const auto& buffer : buffers) {
    devices[buffer.first.first]->pool += RoundUpBuffer(buffer.second);
  }
  return result;
}

}  // namespace tofu::nnvm_layer
