/*!
 * \file mxnet_planned.cc
 * \brief Bindings of memory_plan, engine_view and the checks of a planned graph.
 */
#include <pybind11/numpy.h>

#include "bindings/mxnet_conversions.h"
#include "nnvm/memory/check_fetches.h"
#include "nnvm/memory/check_lifetimes.h"
#include "nnvm/memory/engine_view.h"
#include "nnvm/memory/memory_plan.h"

namespace tofu::bindings {
namespace {

namespace py = pybind11;
using namespace nnvm_layer;  // NOLINT(build/namespaces)

constexpr int64_t kPairColumns = 4;

using LongArray = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

py::dict MemoryToPython(const PlannedGraph& planned) {
  py::dict result;
  for (const auto& device : SumMemory(ListEntries(planned))) {
    py::dict bytes;
    bytes["arguments"] = device.second.arguments;
    bytes["auxiliary"] = device.second.auxiliary;
    bytes["pool"] = device.second.pool;
    bytes["unshared"] = device.second.unshared;
    bytes["transit"] = device.second.transit;
    result[py::str(device.first)] = bytes;
  }
  return result;
}

template <typename Field>
py::array_t<int64_t> EachEntry(const MemoryPlan& plan, Field field) {
  py::array_t<int64_t> column(plan.entries.size());
  int64_t* values = column.mutable_data();
  for (const PlannedEntry& entry : plan.entries) *values++ = static_cast<int64_t>(field(entry));
  return column;
}

py::dict EntriesToPython(const PlannedGraph& planned) {
  const MemoryPlan plan = ListEntries(planned);
  py::dict result;
  result["groups"] = plan.groups;
  result["nodes"] = plan.nodes;
  result["node"] = EachEntry(plan, [](const PlannedEntry& entry) { return entry.node; });
  result["output"] = EachEntry(plan, [](const PlannedEntry& entry) { return entry.output; });
  result["kind"] = EachEntry(plan, [](const PlannedEntry& entry) { return entry.kind; });
  result["group"] = EachEntry(plan, [](const PlannedEntry& entry) { return entry.group; });
  result["bytes"] = EachEntry(plan, [](const PlannedEntry& entry) { return entry.bytes; });
  result["buffer"] = EachEntry(plan, [](const PlannedEntry& entry) { return entry.buffer; });
  result["last"] = EachEntry(plan, [](const PlannedEntry& entry) { return entry.last; });
  return result;
}

py::list OutputsToPython(const PlannedGraph& planned) {
  const nnvm::IndexedGraph& index = planned.graph.indexed_graph();
  const auto& shapes = planned.graph.GetAttr<mxnet::ShapeVector>("shape");
  py::list result;
  for (const auto& entry : index.outputs()) {
    const MaybeShape shape = FromShape(shapes[index.entry_id(entry)]);
    result.append(py::make_tuple(index[entry.node_id].source->attrs.name, ToPython(shape)));
  }
  return result;
}

/*! \brief Return the columns of an EngineView, named after its members. */
template <typename View, typename Visit>
void ForEachColumn(View* view, Visit visit) {
  visit("group", &view->group);
  visit("is_variable", &view->is_variable);
  visit("is_skipped", &view->is_skipped);
  visit("first_entry", &view->first_entry);
  visit("first_read", &view->first_read);
  visit("read", &view->read);
  visit("access", &view->access);
  visit("buffer", &view->buffer);
  visit("is_added", &view->is_added);
  visit("outputs", &view->outputs);
}

py::dict ViewToPython(const PlannedGraph& planned) {
  const EngineView view = ViewAsEngine(planned);
  py::dict result;
  result["names"] = view.names;
  ForEachColumn(&view, [&](const char* name, const Column* column) {
    result[name] = py::array_t<int64_t>(column->size(), column->data());
  });
  Column pairs;
  for (size_t node = 0; node < view.in_place.size(); ++node) {
    for (const InPlaceOption& option : view.in_place[node]) {
      pairs.insert(pairs.end(),
                   {static_cast<int64_t>(node), option.input, option.output, option.is_identity});
    }
  }
  const int64_t rows = pairs.size() / kPairColumns;
  result["in_place"] = py::array_t<int64_t>({rows, kPairColumns}, pairs.data());
  return result;
}

std::vector<std::string> CheckView(const py::dict& columns) {
  EngineView view;
  view.names = columns["names"].cast<std::vector<std::string>>();
  ForEachColumn(&view, [&](const char* name, Column* column) {
    const auto array = columns[name].cast<LongArray>();
    column->assign(array.data(), array.data() + array.size());
  });
  view.in_place.resize(view.names.size());
  const auto pairs = columns["in_place"].cast<LongArray>();
  for (const int64_t* row = pairs.data(); row != pairs.data() + pairs.size(); row += kPairColumns) {
    view.in_place.at(row[0]).push_back(
        {static_cast<uint32_t>(row[1]), static_cast<uint32_t>(row[2]), row[3] != 0});
  }
  return FindLifetimeProblems(view);
}

std::vector<std::string> FindProblems(const PlannedGraph& planned) {
  std::vector<std::string> problems = FindFetchProblems(planned);
  for (std::string& text : FindLifetimeProblems(ViewAsEngine(planned))) {
    problems.push_back(std::move(text));
  }
  return problems;
}

}  // namespace

void RegisterPlannedGraph(py::module_* module) {
  py::class_<PlannedGraph> planned(*module, "PlannedGraph");
  planned.attr("TENSOR") = static_cast<int>(EntryKind::kTensor);
  planned.attr("TRANSIT") = static_cast<int>(EntryKind::kTransit);
  planned
      .def(py::init([](SymbolHandle symbol, const ShapesByName& shapes, const TypesByName& types,
                       bool keeps_order, bool holds_transit) {
             return PlanGraph(symbol, shapes, types, {keeps_order, holds_transit});
           }),
           py::arg("symbol"), py::arg("shapes"), py::arg("dtypes"), py::arg("keeps_order") = true,
           py::arg("holds_transit") = true)
      .def("memory", MemoryToPython)
      .def("entries", EntriesToPython)
      .def("outputs", OutputsToPython)
      .def("engine_view", ViewToPython)
      .def("remote_bytes", CountRemoteBytes)
      .def("problems", FindProblems);
  module->def("check_engine_view", CheckView, py::arg("view"));
}

}  // namespace tofu::bindings
