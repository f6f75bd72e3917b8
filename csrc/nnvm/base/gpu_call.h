/*!
 * \file gpu_call.h
 * \brief Helpers for operators that launch kernels of csrc/cuda.
 */
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "cuda/launch_part.h"
#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief The attribute of an operator that lists its GPU kernels. */
constexpr char kPartKernels[] = "TofuPartKernels";
using PartKernels = std::vector<cuda::PartKernel>;

/*! \brief The name of an element type in kernels. \throws dmlc::Error for types without kernels */
const char* KernelTypeName(int type);

/*! \brief The stream of an operator, or null on a CPU. */
cuda::StreamHandle StreamOf(const mxnet::OpContext& context);

/*! \brief Run an action of csrc/cuda for a node. Its errors become dmlc::Error. */
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

}  // namespace tofu::nnvm_layer
