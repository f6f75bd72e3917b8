/*!
 * \file core_search.cc
 * \brief Python bindings of the searches and of plan evaluation.
 */
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/core_bindings.h"
#include "bindings/core_conversions.h"
#include "core/cost/cost.h"
#include "core/search/exact.h"
#include "core/search/greedy.h"
#include "core/search/recursive.h"

namespace py = pybind11;

namespace tofu {

namespace {

using FixedChoices = std::unordered_map<int, std::vector<int>>;

/*! \brief SearchResult with its arrays made, so that each access gives the same ones. */
struct PySearchResult {
  ChoiceArray operators;
  ChoiceArray tensors;
  SearchResult result;
};

PySearchResult ToPython(SearchResult result, const WorkerGrid& grid) {
  PySearchResult python_result;
  python_result.operators = FromChoices(result.assignment.operators, grid.num_steps());
  python_result.tensors = FromChoices(result.assignment.tensors, grid.num_steps());
  python_result.result = std::move(result);
  return python_result;
}

PySearchResult Search(const Graph& graph, std::vector<int64_t> factors,
                      FixedChoices fixed_operators, FixedChoices fixed_tensors,
                      std::optional<py::function> progress, std::vector<double> prices,
                      std::vector<double> latencies) {
  const WorkerGrid grid(std::move(factors), std::move(prices), std::move(latencies));
  const Hints hints{std::move(fixed_operators), std::move(fixed_tensors)};
  SearchProgress report;
  if (progress) {
    report = [&progress](int steps_done, int64_t bytes) {
      py::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      (*progress)(steps_done, bytes);
    };
  }
  SearchResult result;
  {
    py::gil_scoped_release release;
    result = SearchRecursive(graph, grid, hints, report);
  }
  return ToPython(std::move(result), grid);
}

PySearchResult SearchGreedily(const Graph& graph, std::vector<int64_t> factors,
                              FixedChoices fixed_operators, FixedChoices fixed_tensors) {
  const WorkerGrid grid(std::move(factors));
  const Hints hints{std::move(fixed_operators), std::move(fixed_tensors)};
  SearchResult result;
  {
    py::gil_scoped_release release;
    result = SearchGreedy(graph, grid, hints);
  }
  return ToPython(std::move(result), grid);
}

struct PyExactResult {
  PySearchResult plan;
  ExactResult exact;
};

PyExactResult SearchAll(const Graph& graph, std::vector<int64_t> factors,
                        FixedChoices fixed_operators, FixedChoices fixed_tensors,
                        double time_budget_seconds, std::optional<py::function> progress,
                        size_t max_table_entries, double max_bytes, std::vector<double> prices,
                        std::vector<double> latencies) {
  const WorkerGrid grid(std::move(factors), std::move(prices), std::move(latencies));
  const Hints hints{std::move(fixed_operators), std::move(fixed_tensors)};
  const ExactLimits limits{time_budget_seconds, max_table_entries, 0, max_bytes};
  const ExactProgress report = [&progress](const std::string& stage, int64_t best, int64_t bound) {
    py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (progress) (*progress)(stage, best, bound);
  };
  PyExactResult python_result;
  {
    py::gil_scoped_release release;
    python_result.exact = SearchExact(graph, grid, hints, limits, report);
  }
  python_result.plan = ToPython(std::move(python_result.exact.plan), grid);
  return python_result;
}

PlanCost Evaluate(const Graph& graph, std::vector<int64_t> factors, const ChoiceArray& operators,
                  const ChoiceArray& tensors, std::vector<double> prices,
                  const std::vector<int>& kept, const std::vector<int>& reread,
                  std::vector<double> latencies) {
  const WorkerGrid grid(std::move(factors), std::move(prices), std::move(latencies));
  const Assignment assignment = ToAssignment(graph, operators, tensors, kept, reread);
  py::gil_scoped_release release;
  return EvaluatePlan(graph, grid, assignment);
}

std::pair<std::vector<int64_t>, std::vector<int64_t>> CountLevelsOf(
    const Graph& graph, std::vector<int64_t> factors, const ChoiceArray& operators,
    const ChoiceArray& tensors, const std::vector<int>& kept, const std::vector<int>& reread) {
  const WorkerGrid grid(std::move(factors));
  const Assignment assignment = ToAssignment(graph, operators, tensors, kept, reread);
  py::gil_scoped_release release;
  LevelCounts counts = CountLevels(graph, grid, assignment);
  return {std::move(counts.bytes), std::move(counts.waits)};
}

std::vector<std::pair<int64_t, int64_t>> KeepingOf(const Graph& graph, std::vector<int64_t> factors,
                                                   const ChoiceArray& operators,
                                                   const ChoiceArray& tensors) {
  const WorkerGrid grid(std::move(factors));
  const Assignment assignment = ToAssignment(graph, operators, tensors, {}, {});
  py::gil_scoped_release release;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const Keeping& one : WeighKeeping(graph, grid, assignment))
    pairs.emplace_back(one.saved_bytes, one.held_bytes);
  return pairs;
}

py::list ItemTuples(const PlanCost& cost) {
  py::list items;
  for (const CostItem& item : cost.items) {
    items.append(py::make_tuple(item.group, item.tensor, item.phase, item.bytes, item.is_output));
  }
  return items;
}

}  // namespace

void RegisterSearch(py::module_* module) {
  py::class_<PySearchResult>(*module, "SearchResult")
      .def_readonly("operators", &PySearchResult::operators)
      .def_readonly("tensors", &PySearchResult::tensors)
      .def_property_readonly("step_bytes",
                             [](const PySearchResult& self) { return self.result.step_bytes; })
      .def_property_readonly("num_variables",
                             [](const PySearchResult& self) { return self.result.num_variables; })
      .def_property_readonly("num_incidences",
                             [](const PySearchResult& self) { return self.result.num_incidences; })
      .def_property_readonly("num_tables",
                             [](const PySearchResult& self) { return self.result.num_tables; })
      .def_property_readonly("largest_table",
                             [](const PySearchResult& self) { return self.result.largest_table; });
  py::class_<PyExactResult>(*module, "ExactResult")
      .def_readonly("plan", &PyExactResult::plan)
      .def_property_readonly("lower_bound",
                             [](const PyExactResult& self) { return self.exact.lower_bound; })
      .def_property_readonly("is_optimal",
                             [](const PyExactResult& self) { return self.exact.is_optimal; })
      .def_property_readonly("recursive_bytes",
                             [](const PyExactResult& self) { return self.exact.recursive_bytes; })
      .def_property_readonly("table_entries",
                             [](const PyExactResult& self) { return self.exact.table_entries; })
      .def_property_readonly("held_bytes",
                             [](const PyExactResult& self) { return self.exact.held_bytes; })
      .def_property_readonly("num_sweeps",
                             [](const PyExactResult& self) { return self.exact.num_sweeps; });
  py::class_<PlanCost>(*module, "Cost")
      .def_readonly("total_bytes", &PlanCost::total_bytes)
      .def_readonly("step_bytes", &PlanCost::step_bytes)
      .def_property_readonly("items", &ItemTuples);
  module->def("search_recursive", &Search, py::arg("graph"), py::arg("factors"),
              py::arg("fixed_operators") = FixedChoices(),
              py::arg("fixed_tensors") = FixedChoices(), py::arg("progress") = py::none(),
              py::arg("prices") = std::vector<double>(),
              py::arg("latencies") = std::vector<double>());
  module->def("search_greedy", &SearchGreedily, py::arg("graph"), py::arg("factors"),
              py::arg("fixed_operators") = FixedChoices(),
              py::arg("fixed_tensors") = FixedChoices());
  module->def(
      "search_exact", &SearchAll, py::arg("graph"), py::arg("factors"),
      py::arg("fixed_operators") = FixedChoices(), py::arg("fixed_tensors") = FixedChoices(),
      py::arg("time_budget_seconds") = 60.0, py::arg("progress") = py::none(),
      py::arg("max_table_entries") = ExactLimits().max_table_entries,
      py::arg("max_bytes") = ExactLimits().max_bytes, py::arg("prices") = std::vector<double>(),
      py::arg("latencies") = std::vector<double>());
  module->def("evaluate", &Evaluate, py::arg("graph"), py::arg("factors"), py::arg("operators"),
              py::arg("tensors"), py::arg("prices") = std::vector<double>(),
              py::arg("kept") = std::vector<int>(), py::arg("reread") = std::vector<int>(),
              py::arg("latencies") = std::vector<double>());
  module->def("count_levels", &CountLevelsOf, py::arg("graph"), py::arg("factors"),
              py::arg("operators"), py::arg("tensors"), py::arg("kept") = std::vector<int>(),
              py::arg("reread") = std::vector<int>());
  module->def("weigh_keeping", &KeepingOf, py::arg("graph"), py::arg("factors"),
              py::arg("operators"), py::arg("tensors"));
}

}  // namespace tofu
