/*!
 * \file core_graph.cc
 * \brief Bindings of the semantic graph.
 */
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <tuple>
#include <utility>
#include <vector>

#include "bindings/core_conversions.h"
#include "core/base/text.h"
#include "core/graph/graph.h"

namespace py = pybind11;

namespace tofu {

namespace {

using RowTuple = std::tuple<std::vector<std::pair<int, int64_t>>, int64_t, int64_t>;
// A tensor's position (inputs precede outputs), the dimension that it lacks, and the row of that.
using AbsentTuple = std::tuple<size_t, int, RowTuple>;
using OutputTuple = std::tuple<int, std::vector<RowTuple>, std::vector<int>>;

std::vector<Row> ToRows(const std::vector<RowTuple>& tuples) {
  std::vector<Row> rows;
  rows.reserve(tuples.size());
  for (const auto& [terms, lower, upper] : tuples) {
    Row row;
    for (const auto& [axis, coefficient] : terms) row.terms.push_back({axis, coefficient});
    row.lower = lower;
    row.upper = upper;
    rows.push_back(std::move(row));
  }
  return rows;
}

/*! \brief (tensor, rows, addend_axes, fill[, is_held[, is_read]]). */
Input ToInput(const py::sequence& fields) {
  if (fields.size() < 4 || fields.size() > 6) {
    Refuse("an input is (tensor, rows, addend_axes, fill[, is_held[, is_read]]), not ",
           fields.size(), " values");
  }
  Input input;
  input.tensor = fields[0].cast<int>();
  input.rows = ToRows(fields[1].cast<std::vector<RowTuple>>());
  input.addend_axes = fields[2].cast<std::vector<int>>();
  input.fill = fields[3].cast<double>();
  input.is_held = fields.size() > 4 && fields[4].cast<bool>();
  input.is_read = fields.size() < 6 || fields[5].cast<bool>();
  return input;
}

Output ToOutput(const OutputTuple& tuple) {
  Output output;
  output.tensor = std::get<0>(tuple);
  output.rows = ToRows(std::get<1>(tuple));
  for (int combine : std::get<2>(tuple)) {
    if (combine < 0 || combine > 3) {
      Refuse("combine ", combine,
             " is none of CONCAT = 0, REDUCE = 1, REPLICATE = 2, OVERLAP_ADD = 3");
    }
    output.combine.push_back(static_cast<Combine>(combine));
  }
  return output;
}

void SetAbsent(const std::vector<AbsentTuple>& absent, Operator* op) {
  for (const auto& [slot, dimension, row] : absent) {
    if (slot >= op->inputs.size() + op->outputs.size()) {
      Refuse("tensor ", slot, " lacks a dimension, and the operator has ",
             op->inputs.size() + op->outputs.size());
    }
    Absent& own = slot < op->inputs.size() ? op->inputs[slot].absent
                                           : op->outputs[slot - op->inputs.size()].absent;
    own = {dimension, ToRows({row}).front()};
  }
}

int AddOperator(Graph* graph, std::vector<int64_t> axis_extents,
                const std::vector<py::sequence>& inputs, const std::vector<OutputTuple>& outputs,
                int phase, int64_t group, uint64_t label, int follows_tensor, int same_choice_as,
                std::vector<int> fetched_axes, std::vector<int> uneven_axes,
                const std::vector<AbsentTuple>& absent, bool is_always_fetched,
                const std::vector<std::pair<int, int>>& nestings) {
  Operator op;
  op.axis_extents = std::move(axis_extents);
  for (const py::sequence& input : inputs) op.inputs.push_back(ToInput(input));
  for (const OutputTuple& output : outputs) op.outputs.push_back(ToOutput(output));
  op.phase = phase;
  op.group = group;
  op.label = label;
  op.follows_tensor = follows_tensor;
  op.same_choice_as = same_choice_as;
  op.fetched_axes = std::move(fetched_axes);
  op.uneven_axes = std::move(uneven_axes);
  op.is_always_fetched = is_always_fetched;
  for (const auto& [inner, outer] : nestings) op.nestings.push_back({inner, outer});
  SetAbsent(absent, &op);
  return graph->AddOperator(std::move(op));
}

int AddOperatorLike(Graph* graph, int model, const std::vector<int>& inputs,
                    const std::vector<int>& outputs, int phase, int64_t group, uint64_t label,
                    int same_choice_as) {
  Operator op = graph->op(model);
  if (inputs.size() != op.inputs.size() || outputs.size() != op.outputs.size()) {
    Refuse("an operator like operator ", model, " takes ", op.inputs.size(), " inputs and gives ",
           op.outputs.size(), " outputs, not ", inputs.size(), " and ", outputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) op.inputs[i].tensor = inputs[i];
  for (size_t i = 0; i < outputs.size(); ++i) op.outputs[i].tensor = outputs[i];
  op.phase = phase;
  op.group = group;
  op.label = label;
  op.same_choice_as = same_choice_as;
  op.may_repeat = false;
  return graph->AddOperator(std::move(op));
}

}  // namespace

void RegisterGraph(py::module_* module) {
  module->attr("CONCAT") = static_cast<int>(Combine::kConcat);
  module->attr("REDUCE") = static_cast<int>(Combine::kReduce);
  module->attr("REPLICATE") = static_cast<int>(Combine::kReplicate);
  module->attr("OVERLAP_ADD") = static_cast<int>(Combine::kOverlapAdd);
  py::class_<Graph>(*module, "Graph")
      .def(py::init<>())
      .def("add_tensor", &Graph::AddTensor, py::arg("shape"), py::arg("element_bytes"),
           py::arg("replicable"), py::arg("label"), py::arg("times") = 1)
      .def("add_operator", &AddOperator, py::arg("axis_extents"), py::arg("inputs"),
           py::arg("outputs"), py::arg("phase"), py::arg("group"), py::arg("label"),
           py::arg("follows_tensor") = -1, py::arg("same_choice_as") = -1,
           py::arg("fetched_axes") = std::vector<int>(),
           py::arg("uneven_axes") = std::vector<int>(),
           py::arg("absent") = std::vector<AbsentTuple>(), py::arg("always_fetched") = false,
           py::arg("nestings") = std::vector<std::pair<int, int>>())
      .def("add_operator_like", &AddOperatorLike, py::arg("model"), py::arg("inputs"),
           py::arg("outputs"), py::arg("phase"), py::arg("group"), py::arg("label"),
           py::arg("same_choice_as") = -1)
      .def("copy", [](const Graph& graph) { return Graph(graph); })
      .def("share_choices", &Graph::ShareChoices, py::arg("bound"))
      .def("tie_tensors", &Graph::TieTensors, py::arg("a"), py::arg("b"))
      .def("hold", &Graph::Hold, py::arg("tensor"), py::arg("price"))
      .def("repeat", &Graph::Repeat, py::arg("operator"))
      .def("split_equally", &Graph::SplitEqually)
      .def("split_unevenly", &Graph::SplitUnevenly, py::arg("tensor"))
      .def("share_regions", &Graph::ShareRegions)
      .def("stage_small_sums", &Graph::StageSmallSums)
      .def("relay_in_groups", &Graph::RelayInGroups)
      .def("mark_output", &Graph::MarkOutput, py::arg("tensor"))
      .def("tensor_class", &Graph::TensorClass, py::arg("tensor"))
      .def("uneven_dimensions", &Graph::UnevenDimensions, py::arg("tensor"))
      .def("uneven_axes", &Graph::UnevenAxes, py::arg("operator"))
      .def("choice_root", &Graph::ChoiceRoot, py::arg("operator"));
}

}  // namespace tofu
