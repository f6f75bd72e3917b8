/*!
 * \file core_program.cc
 * \brief Python bindings of emission.
 */
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings/core_bindings.h"
#include "bindings/core_conversions.h"
#include "core/program/emit.h"
#include "core/program/program.h"

namespace py = pybind11;

namespace tofu {

namespace {

using RequestTuple = std::pair<int, std::optional<std::vector<int>>>;

py::array_t<int64_t> Emit(const Graph& graph, std::vector<int64_t> factors,
                          const ChoiceArray& operators, const ChoiceArray& tensors,
                          const std::vector<int>& phases, const std::vector<RequestTuple>& outputs,
                          const std::vector<int>& kept, const std::vector<int>& reread) {
  const WorkerGrid grid(std::move(factors));
  const Assignment assignment = ToAssignment(graph, operators, tensors, kept, reread);
  std::vector<OutputRequest> requests;
  for (const auto& [tensor, layout] : outputs) {
    requests.push_back({tensor, layout.has_value(), layout.value_or(std::vector<int>())});
  }
  std::vector<int64_t> encoded;
  {
    py::gil_scoped_release release;
    encoded = EncodeProgram(EmitProgram(graph, grid, assignment, phases, requests));
  }
  return FromVector(std::move(encoded));
}

py::array_t<int64_t> Traffic(const Graph& graph,
                             const py::array_t<int64_t, py::array::c_style>& program) {
  const Program decoded = DecodeProgram(program.data(), static_cast<size_t>(program.size()));
  return FromVector(CountTraffic(graph, decoded))
      .reshape({decoded.num_workers, decoded.num_workers});
}

}  // namespace

void RegisterProgram(py::module_* module) {
  module->def("emit", &Emit, py::arg("graph"), py::arg("factors"), py::arg("operators"),
              py::arg("tensors"), py::arg("phases"), py::arg("outputs"),
              py::arg("kept") = std::vector<int>(), py::arg("reread") = std::vector<int>());
  module->def("count_traffic", &Traffic, py::arg("graph"), py::arg("program"));
}

}  // namespace tofu
