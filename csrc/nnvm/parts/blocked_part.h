/*!
 * \file blocked_part.h
 * \brief Operators of lowered_operator.h that take data on CPUs as oneDNN lays it out.
 */
#ifndef TOFU_NNVM_PARTS_BLOCKED_PART_H_
#define TOFU_NNVM_PARTS_BLOCKED_PART_H_

#include <cstdint>
#include <vector>

#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief A kernel whose data has `block` neighbouring positions of dimension 1: 1 in MXNet's plain
 * layout. */
using BlockCompute = void (*)(const NodeAttrs&, const OpContext&, const Blobs& inputs,
                              const Requests&, const Blobs& outputs, int64_t block);

/*!
 * \brief Registers such an operator.
 *
 * Its data, letter d of the signature, is in blocks where all inputs of it are, and `axis` is
 * dimension 1; the outputs have the same layout then. Other inputs are taken in plain copies.
 */
nnvm::Op& RegisterBlockedPart(const char* name, Signature signature,
                              void (*parser)(nnvm::NodeAttrs*), BlockCompute compute,
                              std::vector<cuda::PartKernel> kernels);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_PARTS_BLOCKED_PART_H_
