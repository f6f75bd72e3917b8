/*!
 * \file deconvolution.h
 * \brief The gradient of Deconvolution in three dimensions, for which MXNet has no plain kernel on
 * CPUs.
 */
#pragma once

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*!
 * \brief Return MXNet's plain kernel of _backward_Deconvolution, extended to three dimensions by
 * kernels of Convolution.
 *
 * A deconvolution is the gradient of a convolution by the data. So the deconvolution's gradient by
 * the data is that convolution. The gradient by the weight is the convolution's gradient by the
 * weight, with data and head gradient exchanged.
 */
mxnet::FCompute DeconvolutionGradient(const mxnet::FCompute& plain);

}  // namespace tofu::nnvm_layer
