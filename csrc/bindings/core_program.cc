/*!
 * \file core_program.cc
 * \brief Bindings of emission.
 */
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings/core_conversions.h"
#include "core/program/emit.h"
#include "core/program/program.h"
#include "core/program/program_tables.h"

namespace py = pybind11;

namespace tofu {

namespace {

using RequestTuple = std::pair<int, std::optional<std::vector<int>>>;

std::vector<OutputRequest> ToRequests(const std::vector<RequestTuple>& outputs) {
  std::vector<OutputRequest> requests;
  for (const auto& [tensor, layout] : outputs) {
    requests.push_back({tensor, layout.has_value(), layout.value_or(std::vector<int>())});
  }
  return requests;
}

py::array_t<int64_t> Emit(const Graph& graph, std::vector<int64_t> factors,
                          const ChoiceArray& operators, const ChoiceArray& tensors,
                          const std::vector<int>& phases, const std::vector<RequestTuple>& outputs,
                          const std::vector<int>& kept, const std::vector<int>& reread,
                          const std::vector<int>& readers) {
  const WorkerGrid grid(std::move(factors));
  const Assignment assignment = ToAssignment(graph, operators, tensors, kept, reread);
  const std::vector<OutputRequest> requests = ToRequests(outputs);
  std::vector<int64_t> encoded;
  {
    py::gil_scoped_release release;
    encoded = EncodeProgram(EmitProgram(graph, grid, assignment, phases, requests, readers));
  }
  return FromVector(std::move(encoded));
}

py::tuple EmitOutlinesToPython(const Graph& graph, std::vector<int64_t> factors,
                               const ChoiceArray& operators, const ChoiceArray& tensors,
                               const std::vector<int>& phases,
                               const std::vector<RequestTuple>& outputs,
                               const std::vector<int>& kept, const std::vector<int>& reread) {
  const WorkerGrid grid(std::move(factors));
  const Assignment assignment = ToAssignment(graph, operators, tensors, kept, reread);
  const std::vector<OutputRequest> requests = ToRequests(outputs);
  Outlines found;
  Program kinds;
  {
    py::gil_scoped_release release;
    found = EmitOutlines(graph, grid, assignment, phases, requests);
    kinds.num_workers = grid.num_workers();
    kinds.nodes = std::move(found.kinds);
  }
  py::list outlines;
  for (std::vector<int32_t>& outline : found.outlines) {
    outlines.append(FromVector(std::move(outline)));
  }
  return py::make_tuple(FromVector(EncodeProgram(kinds)), outlines,
                        FromVector(std::move(found.outline_of_worker)));
}

py::array ToRows(std::vector<int64_t> values, int64_t columns) {
  py::array_t<int64_t> array = FromVector(std::move(values));
  return array.reshape({array.size() / columns, columns});
}

py::dict Tables(const py::array_t<int64_t, py::array::c_style>& program) {
  ProgramTables tables =
      MakeProgramTables(DecodeProgram(program.data(), static_cast<size_t>(program.size())));
  py::dict result;
  result["workers"] = tables.num_workers;
  result["node_kind"] = FromVector(std::move(tables.node_kind));
  result["node_id"] = FromVector(std::move(tables.node_id));
  result["node_worker"] = FromVector(std::move(tables.node_worker));
  result["node_phase"] = FromVector(std::move(tables.node_phase));
  result["node_fill"] = FromVector(std::move(tables.node_fill));
  result["entry_node"] = FromVector(std::move(tables.entry_node));
  result["entry_rank"] = FromVector(std::move(tables.entry_rank));
  result["entry_shape"] = ToRows(std::move(tables.entry_shape), tables.rank);
  result["entry_begin"] = ToRows(std::move(tables.entry_begin), tables.rank);
  result["read_node"] = FromVector(std::move(tables.read_node));
  result["read_entry"] = FromVector(std::move(tables.read_entry));
  result["piece_node"] = FromVector(std::move(tables.piece_node));
  result["piece_begin"] = ToRows(std::move(tables.piece_begin), tables.rank);
  result["piece_extent"] = ToRows(std::move(tables.piece_extent), tables.rank);
  result["source_piece"] = FromVector(std::move(tables.source_piece));
  result["source_read"] = FromVector(std::move(tables.source_read));
  result["source_begin"] = ToRows(std::move(tables.source_begin), tables.rank);
  result["source_along"] = ToRows(std::move(tables.source_along), tables.rank);
  result["output_entry"] = FromVector(std::move(tables.output_entry));
  result["transit_entry"] = FromVector(std::move(tables.transit_entry));
  return result;
}

}  // namespace

void RegisterProgram(py::module_* module) {
  module->def("emit", &Emit, py::arg("graph"), py::arg("factors"), py::arg("operators"),
              py::arg("tensors"), py::arg("phases"), py::arg("outputs"),
              py::arg("kept") = std::vector<int>(), py::arg("reread") = std::vector<int>(),
              py::arg("readers") = std::vector<int>());
  module->def("emit_outlines", &EmitOutlinesToPython, py::arg("graph"), py::arg("factors"),
              py::arg("operators"), py::arg("tensors"), py::arg("phases"), py::arg("outputs"),
              py::arg("kept") = std::vector<int>(), py::arg("reread") = std::vector<int>());
  module->attr("PROGRAM_FORMAT") = kProgramFormat;
  module->def("worker_group", &NameGroup, py::arg("worker"));
  module->def("shard_name", &NameShard, py::arg("whole"), py::arg("worker"));
  module->def("program_tables", &Tables, py::arg("program"));
}

}  // namespace tofu
