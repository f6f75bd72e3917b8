/*!
 * \file pack_memory.h
 * \brief MXNet's pass MXPlanMemory, whose buffers are packed again in graphs that hold fetches.
 */
#ifndef TOFU_NNVM_MEMORY_PACK_MEMORY_H_
#define TOFU_NNVM_MEMORY_PACK_MEMORY_H_

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Replace the body of the registered pass. Other graphs get what MXNet's own body plans.
 *
 * MXNet's planner decides what is computed in place and places buffers one node after the other; a
 * small buffer that is free grows to what is asked for next. The shards and fetched regions of a
 * partitioned graph have many sizes, and it leaves a quarter of the memory unused. With all
 * lifetimes known, the largest entries are placed first instead and smaller ones into the time that
 * they leave.
 */
void InstallPackMemory();

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_PACK_MEMORY_H_
