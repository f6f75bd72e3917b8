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
 * MXNet's planner decides what is computed in place, and places buffers node by node, growing free
 * ones as needed. Shards and fetched regions have many sizes, so a quarter of the memory is unused.
 * Here all lifetimes are known: the largest entries are placed first, and smaller ones into the
 * gaps.
 */
void InstallPackMemory();

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_PACK_MEMORY_H_
