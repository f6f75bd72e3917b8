/*!
 * \file abi_check.h
 * \brief Does this module agree with the loaded libmxnet.so on class layouts and calling
 * conventions?
 */
#ifndef TOFU_NNVM_BASE_ABI_CHECK_H_
#define TOFU_NNVM_BASE_ABI_CHECK_H_

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Exchange a node, a map and functions with libmxnet.so and compare what arrives.
 * \throw std::runtime_error that names the first difference. Nothing else of this module may be
 * used then.
 */
void CheckAbi();

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_BASE_ABI_CHECK_H_
