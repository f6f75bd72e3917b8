/*!
 * \file part_gpu.h
 * \brief The operators of lowered_operator.h on GPUs.
 */
#ifndef TOFU_NNVM_PARTS_PART_GPU_H_
#define TOFU_NNVM_PARTS_PART_GPU_H_

#include <vector>

#include "cuda/launch_part.h"
#include "nnvm/base/mxnet_api.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief FCompute<gpu> of an operator that runs these kernels over a view, one after the other.
 */
mxnet::FCompute ComputeOnGpu(std::vector<cuda::PartKernel> kernels, ViewOf view);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_PARTS_PART_GPU_H_
