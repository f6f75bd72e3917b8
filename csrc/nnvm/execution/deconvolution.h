/*!
 * \file deconvolution.h
 * \brief Deconvolution's gradient in three dimensions, for which MXNet has no plain kernel on CPUs.
 */
#ifndef TOFU_NNVM_EXECUTION_DECONVOLUTION_H_
#define TOFU_NNVM_EXECUTION_DECONVOLUTION_H_

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief MXNet's plain kernel of _backward_Deconvolution, and beyond its two dimensions the same
 * from the kernels of Convolution.
 *
 * A deconvolution is the gradient of a convolution by its data. Its gradient by the data is that
 * convolution, by the weight the convolution's own with data and head gradient exchanged.
 */
mxnet::FCompute DeconvolutionGradient(const mxnet::FCompute& plain);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_DECONVOLUTION_H_
