/*!
 * \file core_search.cc
 * \brief Bindings of searches and plan evaluation.
 */
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/core_conversions.h"
#include "core/cost/cost.h"
#include "core/search/exact.h"
#include "core/search/greedy.h"
#include "core/search/recursive.h"

namespace py = pybind11;

namespace tofu {

namespace {

using FixedChoices = std::unordered_map<int, std::vector<int>>;

/*! \brief Call `progress` if it is not None. Raise KeyboardInterrupt after Ctrl-C. */
template <typename... Values>
void Report(const std::optional<py::function>& progress, const Values&... values) {
  py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  if (progress) (*progress)(values...);
}

SearchResult SearchRoundByRound(const Graph& graph, std::vector<int64_t> factors,
                                FixedChoices fixed_operators, FixedChoices fixed_tensors,
                                const std::optional<py::function>& progress,
                                std::vector<double> prices, std::vector<double> latencies) {
  const WorkerGrid grid(std::move(factors), std::move(prices), std::move(latencies));
  const Hints hints{std::move(fixed_operators), std::move(fixed_tensors)};
  return SearchRecursive(SearchVariables(graph, grid, hints),
                         [&](int rounds, int64_t bytes) { Report(progress, rounds, bytes); });
}

SearchResult SearchGreedily(const Graph& graph, std::vector<int64_t> factors,
                            FixedChoices fixed_operators, FixedChoices fixed_tensors) {
  return SearchGreedy(graph, WorkerGrid(std::move(factors)),
                      {std::move(fixed_operators), std::move(fixed_tensors)});
}

ExactResult SearchAll(const Graph& graph, std::vector<int64_t> factors,
                      FixedChoices fixed_operators, FixedChoices fixed_tensors,
                      double time_budget_seconds, const std::optional<py::function>& progress,
                      size_t max_table_entries, double max_bytes, std::vector<double> prices,
                      std::vector<double> latencies, int max_fine_rounds,
                      const std::optional<std::pair<ChoiceArray, ChoiceArray>>& start,
                      bool refines_start, int64_t known_bytes) {
  const WorkerGrid grid(std::move(factors), std::move(prices), std::move(latencies));
  const Hints hints{std::move(fixed_operators), std::move(fixed_tensors)};
  const ExactLimits limits{time_budget_seconds, max_table_entries, 0,          max_bytes,
                           max_fine_rounds,     refines_start,     known_bytes};
  const ExactProgress report = [&](const std::string& stage, int64_t best, int64_t bound) {
    Report(progress, stage, best, bound);
  };
  const std::optional<Assignment> plan =
      start ? std::optional(ToAssignment(graph, start->first, start->second, {}, {}))
            : std::nullopt;
  return SearchExact(graph, grid, hints, limits, report, plan ? &*plan : nullptr);
}

PlanCost Evaluate(const Graph& graph, std::vector<int64_t> factors, const ChoiceArray& operators,
                  const ChoiceArray& tensors, std::vector<double> prices,
                  const std::vector<int>& kept, const std::vector<int>& reread,
                  std::vector<double> latencies) {
  const WorkerGrid grid(std::move(factors), std::move(prices), std::move(latencies));
  return EvaluatePlan(graph, grid, ToAssignment(graph, operators, tensors, kept, reread));
}

std::pair<std::vector<int64_t>, std::vector<int64_t>> CountLevelsOf(
    const Graph& graph, std::vector<int64_t> factors, const ChoiceArray& operators,
    const ChoiceArray& tensors, std::vector<double> prices, const std::vector<int>& kept,
    const std::vector<int>& reread, std::vector<double> latencies) {
  const WorkerGrid grid(std::move(factors), std::move(prices), std::move(latencies));
  LevelCounts counts =
      CountLevels(graph, grid, ToAssignment(graph, operators, tensors, kept, reread));
  return {std::move(counts.bytes), std::move(counts.waits)};
}

std::vector<std::pair<int64_t, int64_t>> KeepingOf(const Graph& graph, std::vector<int64_t> factors,
                                                   const ChoiceArray& operators,
                                                   const ChoiceArray& tensors) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const Keeping& one : WeighKeeping(graph, WorkerGrid(std::move(factors)),
                                         ToAssignment(graph, operators, tensors, {}, {})))
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
  py::class_<SearchResult>(*module, "SearchResult")
      .def_property_readonly("operators",
                             [](const SearchResult& self) {
                               return FromChoices(self.assignment.operators,
                                                  self.round_bytes.size());
                             })
      .def_property_readonly("tensors",
                             [](const SearchResult& self) {
                               return FromChoices(self.assignment.tensors, self.round_bytes.size());
                             })
      .def_readonly("round_bytes", &SearchResult::round_bytes);
  py::class_<ExactResult>(*module, "ExactResult")
      .def_readonly("plan", &ExactResult::plan)
      .def_readonly("lower_bound", &ExactResult::lower_bound)
      .def_readonly("is_optimal", &ExactResult::is_optimal)
      .def_readonly("recursive_bytes", &ExactResult::recursive_bytes)
      .def_readonly("held_bytes", &ExactResult::held_bytes)
      .def_readonly("num_sweeps", &ExactResult::num_sweeps)
      .def_readonly("spent_seconds", &ExactResult::spent_seconds);
  py::class_<PlanCost>(*module, "Cost")
      .def_readonly("total_bytes", &PlanCost::total_bytes)
      .def_readonly("round_bytes", &PlanCost::round_bytes)
      .def_property_readonly("items", &ItemTuples);
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  const std::vector<double> no_numbers;
  const std::vector<int> none;
  const FixedChoices free;
  module->def("search_recursive", SearchRoundByRound, Unlocked(), py::arg("graph"),
              py::arg("factors"), py::arg("fixed_operators") = free,
              py::arg("fixed_tensors") = free, py::arg("progress") = py::none(),
              py::arg("prices") = no_numbers, py::arg("latencies") = no_numbers);
  module->def("search_greedy", SearchGreedily, Unlocked(), py::arg("graph"), py::arg("factors"),
              py::arg("fixed_operators") = free, py::arg("fixed_tensors") = free);
  module->def("search_exact", SearchAll, Unlocked(), py::arg("graph"), py::arg("factors"),
              py::arg("fixed_operators") = free, py::arg("fixed_tensors") = free,
              py::arg("time_budget_seconds") = 60.0, py::arg("progress") = py::none(),
              py::arg("max_table_entries") = ExactLimits().max_table_entries,
              py::arg("max_bytes") = ExactLimits().max_bytes, py::arg("prices") = no_numbers,
              py::arg("latencies") = no_numbers,
              py::arg("max_fine_rounds") = ExactLimits().max_fine_rounds,
              py::arg("start") = py::none(), py::arg("refines_start") = false,
              py::arg("known_bytes") = ExactLimits().known_bytes);
  module->def("evaluate", Evaluate, Unlocked(), py::arg("graph"), py::arg("factors"),
              py::arg("operators"), py::arg("tensors"), py::arg("prices") = no_numbers,
              py::arg("kept") = none, py::arg("reread") = none, py::arg("latencies") = no_numbers);
  module->def("count_levels", CountLevelsOf, Unlocked(), py::arg("graph"), py::arg("factors"),
              py::arg("operators"), py::arg("tensors"), py::arg("prices") = no_numbers,
              py::arg("kept") = none, py::arg("reread") = none, py::arg("latencies") = no_numbers);
  module->def("weigh_keeping", KeepingOf, Unlocked(), py::arg("graph"), py::arg("factors"),
              py::arg("operators"), py::arg("tensors"));
}

}  // namespace tofu
