/*!
 * \file abi_check.h
 * \brief Check of class layouts and calling conventions against the loaded libmxnet.so.
 */
#pragma once

namespace tofu::nnvm_layer {

/*!
 * \brief Exchange a node, a map and functions with libmxnet.so and compare the results.
 * \\throw std::runtime_error naming the first difference. Then the module must not be used.
 */
void CheckAbi();

}  // namespace tofu::nnvm_layer
