/*!
 * \file gpu_call.h
 * \brief What the operators of this module need of MXNet to launch kernels of csrc/cuda.
 */
#ifndef TOFU_NNVM_BASE_GPU_CALL_H_
#define TOFU_NNVM_BASE_GPU_CALL_H_

#include <exception>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "cuda/launch_part.h"
#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief The attribute of an operator whose kernels are those of a part: which they are. */
constexpr char kPartKernels[] = "TofuPartKernels";
using PartKernels = std::vector<cuda::PartKernel>;

/*! \brief An element type as kernels name it; dmlc::Error for one that MXNet's arrays do not have.
 */
const char* KernelTypeName(int type);

/*! \brief The stream on which an operator runs; none where it does not run on a GPU. */
cuda::StreamHandle StreamOf(const mxnet::OpContext& context);

/*! \brief Runs an action of csrc/cuda for a node; its errors become MXNet's. */
template <typename Action>
void CallGpu(const std::string& node, const Action& action) {
  std::string problem;
  try {
    action();
    return;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  LOG(FATAL) << node << ": " << problem;
}

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_BASE_GPU_CALL_H_
