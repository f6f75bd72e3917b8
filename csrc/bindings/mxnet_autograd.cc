/*!
 * \file mxnet_autograd.cc
 * \brief Bindings of calls that MXNet's autograd records.
 */
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/mxnet_conversions.h"
#include "nnvm/autograd/recorded_call.h"

namespace tofu::bindings {
namespace {

namespace py = pybind11;
using namespace nnvm_layer;  // NOLINT(build/namespaces)

/*! \brief Free a function on any thread, even after Python has ended. */
void FreeFunction(py::function* function) {
  if (Py_IsInitialized() == 0) {
    function->release();
    delete function;
    return;
  }
  const py::gil_scoped_acquire lock;
  delete function;
}

std::vector<ObjectHandle> NewHandles(const std::vector<mxnet::NDArray>& arrays) {
  std::vector<ObjectHandle> handles;
  for (const mxnet::NDArray& array : arrays) {
    handles.push_back(reinterpret_cast<ObjectHandle>(new mxnet::NDArray(array)));
  }
  return handles;
}

/*! \brief Call a function. It receives handles of new arrays, which it must free. */
void CallPython(const py::function& function, const std::vector<mxnet::NDArray>& heads,
                const std::vector<mxnet::OpReqType>& requests,
                const std::vector<mxnet::NDArray>& gradients) {
  const py::gil_scoped_acquire lock;
  std::optional<std::string> failure;
  bool is_interrupted = false;
  try {
    function(NewHandles(heads), std::vector<int>(requests.begin(), requests.end()),
             NewHandles(gradients));
  } catch (py::error_already_set& error) {
    failure = py::str(error.value());
    is_interrupted = error.matches(PyExc_KeyboardInterrupt);
  }
  // MXNet passes its own errors to the caller of backward. An interrupt could be swallowed on the
  // way, so Python raises it when backward has returned.
  if (is_interrupted) PyErr_SetInterrupt();
  if (failure) throw dmlc::Error(*failure);
}

void RecordFromPython(const std::vector<ObjectHandle>& inputs,
                      const std::vector<ObjectHandle>& outputs, py::function backward) {
  const std::shared_ptr<py::function> function(new py::function(std::move(backward)), FreeFunction);
  RecordCall(inputs, outputs,
             [function](const auto&... arguments) { CallPython(*function, arguments...); });
}

}  // namespace

void RegisterAutograd(py::module_* module) {
  module->def("record_call", RecordFromPython, py::arg("inputs"), py::arg("outputs"),
              py::arg("backward"));
  module->def("needs_gradient", NeedsGradient, py::arg("array"));
}

}  // namespace tofu::bindings
