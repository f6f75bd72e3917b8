/*!
 * \file abi_check.h
 * \brief Check of class layouts and calling conventions against the loaded libmxnet.so.
 */
#ifndef TOFU_NNVM_BASE_ABI_CHECK_H_
#define TOFU_NNVM_BASE_ABI_CHECK_H_

namespace tofu::nnvm_layer {

/*!
 * \brief Exchange a node, a map and functions with libmxnet.so and compare the results.
 * \\throw std::runtime_error naming the first difference. Then the module must not be used.
 */
void CheckAbi();

}  // namespace tofu::nnvm_layer

#endif  // TOFU_NNVM_BASE_ABI_CHECK_H_
