/*!
 * \file memory_plan.h
 * \brief What a graph will need on each device, from MXNet's own planner, without allocating.
 */
#ifndef TOFU_NNVM_MEMORY_PLAN_H_
#define TOFU_NNVM_MEMORY_PLAN_H_

#include <cstdint>
#include <map>
#include <string>

#include "nnvm/inference.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief Bytes on one device. A device needs arguments + auxiliary + pool; workspace is not
 * counted. */
struct DeviceMemory {
  int64_t arguments = 0;
  int64_t auxiliary = 0;
  int64_t pool = 0;      // buffers that the planner shares between outputs of operators
  int64_t unshared = 0;  // the same outputs, each in a buffer of its own
  int64_t fetched = 0;   // of `unshared`: outputs of fetches
};

/*!
 * \brief Plan by group (attribute __ctx_group__; nodes without it are in group "").
 * \throw dmlc::Error where a shape or type cannot be inferred
 */
std::map<std::string, DeviceMemory> PlanMemory(SymbolHandle symbol, const ShapesByName& shapes,
                                               const TypesByName& types);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_PLAN_H_
