/*!
 * \file mxnet_module.cc
 * \brief The module tofu._mxnet; see tofu/_mxnet.pyi for its contract.
 */
#include <pybind11/pybind11.h>

#include "nnvm/abi_check.h"

PYBIND11_MODULE(_mxnet, module) {
  module.doc() = "Graph passes and kernels that plug into MXNet's libmxnet.so";
  tofu::nnvm_layer::CheckAbi();
}
