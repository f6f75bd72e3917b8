/*!
 * \file pack_memory.h
 * \brief MXNet's pass MXPlanMemory, with better packing for graphs with fetches.
 */
#ifndef TOFU_NNVM_MEMORY_PACK_MEMORY_H_
#define TOFU_NNVM_MEMORY_PACK_MEMORY_H_

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Replace the body of the pass. Graphs without fetches keep the plan of MXNet's body.
 *
 * MXNet's planner decides which outputs are computed in place. It places buffers node by node, and
 * enlarges free buffers as needed. Since shards and fetched regions have many sizes, a quarter of
 * that memory would be unused. The new body knows all lifetimes: it places the largest entries
 * first, and smaller ones into the gaps.
 */
void InstallPackMemory();

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_PACK_MEMORY_H_
