/*!
 * \file place_device.cc
 */
#include "nnvm/fetch/place_device.h"

#include <string>
#include <utility>

#include "nnvm/fetch/multi_fetch.h"

namespace tofu::nnvm_layer {

const char kGroupAttribute[] = "__ctx_group__";
const char kPositionAttribute[] = "__tofu_node__";

namespace {

using nnvm::DeviceVector;
using nnvm::Graph;
using nnvm::IndexedGraph;

constexpr int kUnplaced = -1;

nnvm::PassFunction g_original_body;  // MXNet's pass

/*! \brief The device of a node's group. A bound argument must be on it. */
int DeviceOf(const nnvm::Node& node, const std::string& group_key,
             const nnvm::DeviceAssignMap& devices, int bound) {
  const std::string* group = FindText(node.attrs, group_key);
  CHECK(group != nullptr) << node.attrs.name << " belongs to no worker (it has no attribute "
                          << group_key
                          << "): a partitioned graph cannot be composed with other operators";
  const auto device = devices.find(*group);
  CHECK(device != devices.end()) << "group2ctx has no context for " << *group << ", the worker of "
                                 << node.attrs.name;
  CHECK(bound == kUnplaced || bound == device->second)
      << node.attrs.name << " was bound to a context that is not its worker's, " << *group;
  return device->second;
}

void CheckEdges(const IndexedGraph& index, const DeviceVector& devices) {
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    if (node.is_variable() || node.op() == MultiFetchOp()) continue;
    for (const auto& entry : index[id].inputs) {
      CHECK_EQ(devices[entry.node_id], devices[id])
          << node.attrs.name << " reads " << index[entry.node_id].source->attrs.name
          << " on another device without a fetch";
    }
  }
}

Graph PlaceDevice(Graph graph) {
  const IndexedGraph& index = graph.indexed_graph();
  if (!IsPartitioned(index)) return g_original_body(std::move(graph));
  const std::string group_key = graph.GetAttr<std::string>("device_group_attr_key");
  const auto& assigned = graph.GetAttr<nnvm::DeviceAssignMap>("device_assign_map");
  DeviceVector devices(index.num_nodes(), kUnplaced);
  if (graph.attrs.count("device") != 0) devices = graph.GetAttr<DeviceVector>("device");
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    devices[id] = DeviceOf(*index[id].source, group_key, assigned, devices[id]);
  }
  CheckEdges(index, devices);
  for (const char* used : {"device_group_attr_key", "device_assign_map", "device_copy_op"}) {
    graph.attrs.erase(used);
  }
  SetGraphAttr(&graph, "device", std::move(devices));
  return graph;
}

}  // namespace

bool IsPartitioned(const nnvm::IndexedGraph& index) {
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    if (node.op() == MultiFetchOp()) return true;
    if (FindText(node.attrs, kPositionAttribute) != nullptr) return true;
  }
  return false;
}

void InstallPlaceDevice() { ReplacePass("PlaceDevice", PlaceDevice, &g_original_body); }

}  // namespace tofu::nnvm_layer
