/*!
 * \file mxnet_module.cc
 * \brief The module tofu._mxnet; tofu/_mxnet.pyi is its contract.
 */
#include "bindings/mxnet_conversions.h"
#include "nnvm/base/abi_check.h"
#include "nnvm/fetch/place_device.h"
#include "nnvm/memory/pack_memory.h"

PYBIND11_MODULE(_mxnet, module) {
  module.doc() = "Graph passes and kernels that plug into MXNet's libmxnet.so";
  module.attr("built_for_cuda") = MXNET_USE_CUDA != 0;
  tofu::nnvm_layer::CheckAbi();
  tofu::nnvm_layer::InstallPlaceDevice();
  tofu::nnvm_layer::InstallPackMemory();
  tofu::bindings::RegisterErrors();
  tofu::bindings::RegisterGraph(&module);
  tofu::bindings::RegisterExecution(&module);
  tofu::bindings::RegisterPlannedGraph(&module);
  tofu::bindings::RegisterGpu(&module);
  tofu::bindings::RegisterAutograd(&module);
}
