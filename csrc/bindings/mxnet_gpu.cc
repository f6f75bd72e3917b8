/*!
 * \file mxnet_gpu.cc
 * \brief Bindings of the functions that prepare GPUs when a graph is bound.
 */
#include "bindings/mxnet_conversions.h"
#include "cuda/device.h"
#include "nnvm/fetch/multi_fetch_gpu.h"

namespace tofu::bindings {
namespace {

namespace py = pybind11;
using namespace nnvm_layer;  // NOLINT(build/namespaces)

/*! \brief (name, compute capability). */
py::tuple DescribeGpu(int ordinal) {
  const cuda::Device& device = cuda::Device::Get(ordinal);
  return py::make_tuple(device.name(), device.capability());
}

size_t CountFreeBytes(int ordinal) { return cuda::Device::Get(ordinal).FreeBytes(); }

py::list PrepareFromPython(SymbolHandle symbol, const std::map<std::string, int>& devices) {
  StagedBytes staged;
  {
    const py::gil_scoped_release may_take_seconds;
    staged = PrepareGpuKernels(symbol, devices);
  }
  py::list result;
  for (const auto& pair : staged) {
    result.append(py::make_tuple(pair.first.first, pair.first.second, pair.second));
  }
  return result;
}

/*! \brief Let all operators of this module run their GPU code on an emulated driver
 * (TOFU_CUDA_DRIVER), whose memory is the host's. This cannot be undone. */
void RunGpuCodeOnCpu() {
  const auto& on_gpu = nnvm::Op::GetAttr<mxnet::FCompute>("FCompute<gpu>");
  for (const std::string& name : dmlc::Registry<nnvm::Op>::ListAllNames()) {
    if (name.compare(0, 6, "_tofu_") != 0) continue;
    nnvm::Op& op = dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__(name);
    const mxnet::FCompute compute = on_gpu.get(&op, nullptr);
    if (compute != nullptr) {
      op.set_attr<mxnet::FCompute>("FCompute<cpu>", compute, kAttributeLevel);
    }
  }
}

}  // namespace

void RegisterGpu(pybind11::module_* module) {
  module->def("describe_gpu", DescribeGpu, py::arg("ordinal"));
  module->def("prepare_gpu_kernels", PrepareFromPython, py::arg("symbol"), py::arg("devices"));
  module->def("gpu_free_bytes", CountFreeBytes, py::arg("ordinal"));
  module->def("run_gpu_code_on_cpu", RunGpuCodeOnCpu);
}

}  // namespace tofu::bindings
