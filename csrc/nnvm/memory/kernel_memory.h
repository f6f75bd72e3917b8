/*!
 * \file kernel_memory.h
 * \brief Use of memory by MXNet's kernels, as MXNet's operators declare it.
 */
#pragma once

#include "nnvm/base/mxnet_api.h"
#include "nnvm/memory/buffer_plan.h"

namespace tofu::nnvm_layer {

/*! \brief Describe the kernel of a node that is not a variable. */
KernelMemory DescribeKernel(const nnvm::NodeAttrs& attrs);

}  // namespace tofu::nnvm_layer
