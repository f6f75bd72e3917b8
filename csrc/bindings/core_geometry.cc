/*!
 * \file core_geometry.cc
 * \brief Bindings of worker boxes, shards and feasible choices.
 */
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/core_conversions.h"
#include "core/base/text.h"
#include "core/geometry/geometry.h"

namespace py = pybind11;

namespace tofu {

namespace {

Subject ToSubject(const std::string& kind, int id) {
  if (kind != "operator" && kind != "tensor")
    Refuse("kind '", kind, "': must be 'operator' or 'tensor'");
  return {kind == "tensor", id};
}

std::vector<int> FeasibleChoices(const Graph& graph, const std::vector<int64_t>& factors,
                                 const std::string& kind, int id, const std::vector<int>& prefix) {
  const WorkerGrid grid(factors);
  const Subject subject = ToSubject(kind, id);
  if (prefix.size() >= factors.size()) {
    Refuse("a prefix of ", prefix.size(), " choices leaves no round of ", factors.size());
  }
  CheckChoice(graph, grid, subject, prefix);
  const int followed = subject.is_tensor ? -1 : graph.op(graph.ChoiceRoot(id)).follows_tensor;
  return ListChoices(graph, grid, followed >= 0 ? Subject{true, followed} : subject, prefix);
}

py::array_t<int64_t> WorkerBoxes(const Graph& graph, const std::vector<int64_t>& factors,
                                 const std::string& kind, int id, const std::vector<int>& choice) {
  const WorkerGrid grid(factors);
  const Subject subject = ToSubject(kind, id);
  CheckChoice(graph, grid, subject, choice);
  return FromBoxes(SplitBoxes(ExtentsOf(graph, subject), grid, choice, graph.splits_equally()));
}

}  // namespace

void RegisterGeometry(py::module_* module) {
  module->def("feasible_choices", &FeasibleChoices, py::arg("graph"), py::arg("factors"),
              py::arg("kind"), py::arg("id"), py::arg("prefix"));
  module->def("worker_boxes", &WorkerBoxes, py::arg("graph"), py::arg("factors"), py::arg("kind"),
              py::arg("id"), py::arg("choice"));
}

}  // namespace tofu
