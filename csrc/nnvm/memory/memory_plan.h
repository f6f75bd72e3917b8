/*!
 * \file memory_plan.h
 * \brief The memory that a graph needs on each device, from MXNet's planner. Nothing is allocated.
 */
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nnvm/graph/inference.h"
#include "nnvm/memory/buffer_plan.h"

namespace tofu::nnvm_layer {

/*! \brief Describe how the kernel of a node that is not a variable uses memory, as MXNet declares
 * it.
 */
KernelMemory DescribeKernel(const nnvm::NodeAttrs& attrs);

enum class EntryKind : int {
  kArgument = 0,
  kAuxiliary = 1,
  kTensor = 2,  // output of an operator, or an assembled shard
  kTransit = 3  // see marked_outputs.h
};

/*! \brief A variable or an output of a node, and its place in memory. */
struct PlannedEntry {
  uint32_t node = 0;  // position in execution order
  uint32_t output = 0;
  EntryKind kind = EntryKind::kTensor;
  int group = 0;
  int64_t bytes = 0;
  int buffer = -1;    // entries of a buffer share memory; negative: own memory
  uint32_t last = 0;  // the last reader; the number of nodes if it outlives the step
};

/*! \brief Entries and their lifetimes on all devices (groups of nodes by attribute __ctx_group__).
 */
struct MemoryPlan {
  std::vector<std::string> groups;
  std::vector<std::string> nodes;  // names, in execution order
  std::vector<PlannedEntry> entries;
};

struct MemoryPlanOptions {
  bool keeps_order = true;    // false: ignore control dependencies
  bool holds_transit = true;  // false: entries in transit take no memory
};

/*! \brief A graph as it will be bound: shapes, types and buffers of all entries. */
struct PlannedGraph {
  nnvm::Symbol unordered;  // owns the nodes of a graph without control dependencies
  nnvm::Graph graph;
  std::vector<std::string> groups;  // by number; "" for nodes without the attribute
  nnvm::DeviceVector group_of_node;
};

/*!
 * \brief Plan the buffers of a graph.
 * \\throw dmlc::Error if a shape or type cannot be inferred
 */
PlannedGraph PlanGraph(SymbolHandle symbol, const ShapesByName& shapes, const TypesByName& types,
                       const MemoryPlanOptions& options = {});

/*! \brief Return the bytes of an entry, after inference of shapes and types. */
int64_t EntryBytes(const nnvm::Graph& graph, uint32_t entry, const nnvm::Node& node);

/*! \brief The entries of a planned graph. \throw dmlc::Error if a shape or type is unknown */
MemoryPlan ListEntries(const PlannedGraph& planned);

/*! \brief Bytes on one device, which needs arguments + auxiliary + pool and uncounted workspace. */
struct DeviceMemory {
  int64_t arguments = 0;
  int64_t auxiliary = 0;
  int64_t pool = 0;      // buffers shared by outputs of operators
  int64_t unshared = 0;  // the same outputs with a buffer each
  int64_t transit = 0;   // the part of `unshared` in transit between workers
};

/*! \brief Return the bytes that MXNet's pool uses for a buffer. */
int64_t RoundUpBuffer(int64_t bytes);

/*! \brief Memory of a planned graph, by group. */
std::map<std::string, DeviceMemory> SumMemory(const MemoryPlan& plan);

}  // namespace tofu::nnvm_layer
