/*!
 * \file memory_plan.h
 * \brief What a graph will need on each device, from MXNet's own planner, without allocating.
 */
#ifndef TOFU_NNVM_MEMORY_MEMORY_PLAN_H_
#define TOFU_NNVM_MEMORY_MEMORY_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nnvm/graph/inference.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief What an entry is to the plan of the graph. */
enum class EntryKind : int {
  kArgument = 0,
  kAuxiliary = 1,
  kTensor = 2,  // what an operator made, or a shard put together
  kTransit = 3  // in transit between workers (marked_outputs.h)
};

/*! \brief A variable, or an output of an operator, and where the planner puts it. */
struct PlannedEntry {
  uint32_t node = 0;  // position in execution order
  uint32_t output = 0;
  EntryKind kind = EntryKind::kTensor;
  int group = 0;
  int64_t bytes = 0;
  int buffer = -1;    // entries of one buffer share memory; negative: memory of its own
  uint32_t last = 0;  // the last node that reads it; the number of nodes if it outlives the step
};

/*! \brief What is alive when, on every device (group of nodes by attribute __ctx_group__). */
struct MemoryPlan {
  std::vector<std::string> groups;
  std::vector<std::string> nodes;  // names, in execution order
  std::vector<PlannedEntry> entries;
};

struct MemoryPlanOptions {
  bool keeps_order = true;    // false: as if the graph had no control dependencies
  bool holds_transit = true;  // false: as if entries in transit took no memory
};

/*! \brief A graph as binding will have it: shapes, types and buffers of all entries. */
struct PlannedGraph {
  nnvm::Symbol unordered;  // owns the nodes of a graph whose control dependencies were left out
  nnvm::Graph graph;
  std::vector<std::string> groups;  // by number; nodes without the attribute are in group ""
  nnvm::DeviceVector group_of_node;
};

/*!
 * \brief Plan the buffers of a whole graph.
 * \throw dmlc::Error where a shape or type cannot be inferred
 */
PlannedGraph PlanGraph(SymbolHandle symbol, const ShapesByName& shapes, const TypesByName& types,
                       const MemoryPlanOptions& options = {});

/*! \brief The entries of a planned graph. \throw dmlc::Error where one has no known shape or type
 */
MemoryPlan ListEntries(const PlannedGraph& planned);

/*! \brief Bytes on one device. A device needs arguments + auxiliary + pool; workspace is not
 * counted. */
struct DeviceMemory {
  int64_t arguments = 0;
  int64_t auxiliary = 0;
  int64_t pool = 0;      // buffers that the planner shares between outputs of operators
  int64_t unshared = 0;  // the same outputs, each in a buffer of its own
  int64_t transit = 0;   // of `unshared`: in transit between workers
};

/*! \brief What a planned graph needs, by group. */
std::map<std::string, DeviceMemory> SumMemory(const MemoryPlan& plan);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_MEMORY_PLAN_H_
