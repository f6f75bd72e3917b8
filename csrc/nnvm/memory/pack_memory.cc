/*!
 * \file pack_memory.cc
 */
#include "nnvm/memory/pack_memory.h"

#include <deque>
#include <utility>

#include "nnvm/execution/marked_outputs.h"
#include "nnvm/fetch/place_device.h"
#include "nnvm/memory/memory_plan.h"

namespace tofu::nnvm_layer {
namespace {

using nnvm::Graph;
using nnvm::IndexedGraph;

nnvm::PassFunction g_original_body;  // MXNet's pass

/*! \brief Describe a graph whose planned entries have a buffer of MXNet. The kernels are appended
 * to `kernels`. */
MemoryGraph DescribeGraph(const Graph& graph, std::deque<KernelMemory>* kernels) {
  const IndexedGraph& index = graph.indexed_graph();
  const auto& storage = graph.GetAttr<nnvm::StorageVector>("storage_id");
  const auto& devices = graph.GetAttr<nnvm::DeviceVector>("device");
  const auto& types = graph.GetAttr<nnvm::DTypeVector>("dtype");
  MemoryGraph described;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    for (uint32_t output = 0; output < node.num_outputs(); ++output) {
      const uint32_t entry = index.entry_id(id, output);
      described.entries.emplace_back();
      MemoryEntry& described_entry = described.entries.back();
      described_entry.is_placed = !node.is_variable() && storage[entry] >= 0;
      if (!described_entry.is_placed) continue;
      described_entry.bytes = EntryBytes(graph, entry, node);
      described_entry.item_bytes = static_cast<int>(mshadow::mshadow_sizeof(types[entry]));
      described_entry.elements = described_entry.bytes / described_entry.item_bytes;
    }
    for (const auto& input : index[id].inputs) described.reads.push_back(index.entry_id(input));
    const KernelMemory* kernel = nullptr;
    if (!node.is_variable()) {
      kernels->push_back(DescribeKernel(node.attrs));
      kernel = &kernels->back();
    }
    described.EndNode(kernel, devices[id]);
  }
  for (const auto& output : index.outputs()) described.outputs.push_back(index.entry_id(output));
  for (uint32_t entry : ListMarkedEntries(OutputMark::kRequested, index)) {
    described.entries[entry].is_requested = true;
  }
  for (uint32_t entry : ListMarkedEntries(OutputMark::kKept, index)) {
    described.entries[entry].is_kept = true;
  }
  return described;
}

Graph PackMemory(Graph graph) {
  graph = g_original_body(std::move(graph));
  if (graph.attrs.count("device") == 0 || !IsPartitioned(graph.indexed_graph())) return graph;
  std::deque<KernelMemory> kernels;
  const MemoryGraph described = DescribeGraph(graph, &kernels);
  BufferPlan plan = PlanBuffers(described);
  nnvm::StorageVector storage = graph.GetAttr<nnvm::StorageVector>("storage_id");
  for (size_t entry = 0; entry < storage.size(); ++entry) {
    if (plan.buffers[entry] >= 0) storage[entry] = plan.buffers[entry];
  }
  SetGraphAttr(&graph, "storage_id", std::move(storage));
  SetGraphAttr(&graph, "storage_inplace_index", std::move(plan.in_place));
  return graph;
}

}  // namespace

void InstallPackMemory() { ReplacePass("MXPlanMemory", PackMemory, &g_original_body); }

}  // namespace tofu::nnvm_layer
