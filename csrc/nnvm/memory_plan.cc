/*!
 * \file memory_plan.cc
 */
#include "nnvm/memory_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "nnvm/multi_fetch.h"
#include "nnvm/place_device.h"

namespace tofu {
namespace nnvm_layer {
namespace {

using nnvm::Graph;
using nnvm::IndexedGraph;

// MXNet's pool arrays are float32 arrays: their sizes are multiples of its element.
constexpr int64_t kPoolAlignment = 4;

/*! \brief The group of every node, as a number, and the groups' names. */
struct Groups {
  std::vector<std::string> names;
  nnvm::DeviceVector of_node;
};

Groups ListGroups(const IndexedGraph& index) {
  Groups groups;
  std::map<std::string, int> numbers;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const auto& dict = index[id].source->attrs.dict;
    const auto attribute = dict.find(kGroupAttribute);
    const std::string name = attribute == dict.end() ? "" : attribute->second;
    const auto added = numbers.emplace(name, static_cast<int>(groups.names.size()));
    if (added.second) groups.names.push_back(name);
    groups.of_node.push_back(added.first->second);
  }
  return groups;
}

int64_t EntryBytes(const Graph& graph, uint32_t entry, const nnvm::Node& node) {
  const mxnet::TShape& shape = graph.GetAttr<mxnet::ShapeVector>("shape")[entry];
  const int type = graph.GetAttr<nnvm::DTypeVector>("dtype")[entry];
  CHECK(mxnet::shape_is_known(shape) && type != -1)
      << "the memory of " << node.attrs.name << " cannot be planned: its shape is " << shape
      << ", its type code " << type;
  return static_cast<int64_t>(shape.Size() * mshadow::mshadow_sizeof(type));
}

}  // namespace

std::map<std::string, DeviceMemory> PlanMemory(SymbolHandle symbol, const ShapesByName& shapes,
                                               const TypesByName& types) {
  Graph graph = InferGraphTypes(InferGraph(GraphOf(symbol), shapes, {}), types);
  const Groups groups = ListGroups(graph.indexed_graph());
  graph.attrs["device"] = std::make_shared<nnvm::any>(groups.of_node);
  graph = nnvm::ApplyPass(std::move(graph), "MXPlanMemory");

  const IndexedGraph& index = graph.indexed_graph();
  const auto& storage = graph.GetAttr<nnvm::StorageVector>("storage_id");
  std::vector<DeviceMemory> memory(groups.names.size());
  std::vector<std::map<int, int64_t>> buffers(groups.names.size());
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    DeviceMemory& device = memory[groups.of_node[id]];
    for (uint32_t output = 0; output < node.num_outputs(); ++output) {
      const uint32_t entry = index.entry_id(id, output);
      const int64_t bytes = EntryBytes(graph, entry, node);
      if (node.is_variable()) {
        (index.mutable_input_nodes().count(id) ? device.auxiliary : device.arguments) += bytes;
        continue;
      }
      device.unshared += bytes;
      if (node.op() == MultiFetchOp()) device.fetched += bytes;
      int64_t& buffer = buffers[groups.of_node[id]][storage[entry]];
      buffer = std::max(buffer, bytes);
    }
  }
  std::map<std::string, DeviceMemory> result;
  for (size_t g = 0; g < memory.size(); ++g) {
    for (const auto& buffer : buffers[g]) {
      if (buffer.first < 0) continue;  // not from the pool
      memory[g].pool += (buffer.second + kPoolAlignment - 1) / kPoolAlignment * kPoolAlignment;
    }
    result[groups.names[g]] = memory[g];
  }
  return result;
}

}  // namespace nnvm_layer
}  // namespace tofu
