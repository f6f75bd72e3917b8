/*!
 * \file test_cost.cc
 * \brief Cost tables that several operators share; tests/search/test_cost.py counts bytes element
 * by element.
 */
#include <functional>
#include <utility>
#include <vector>

#include "check.h"
#include "core/cost/cost.h"
#include "core/cost/tables.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)

/*! \brief Return the row of a plain index. */
Row Index(int axis) { return {{{axis, 1}}, 0, 1}; }

Input Reads(int tensor, std::vector<Row> rows) {
  Input input;
  input.tensor = tensor;
  input.rows = std::move(rows);
  return input;
}

/*! \brief Operator that differs from others in one property. */
struct Lookalike {
  Tensor read;
  Tensor added;
  Tensor written;
  Operator op;
};

/*! \brief y[i, j] = sum over k of f(x[i, j - 1 .. j + 1], x[i, j + k - 1]) + b[i, j]. */
Lookalike MakeLookalike() {
  Lookalike one;
  one.read.shape = one.added.shape = one.written.shape = {6, 6};
  one.op.axis_extents = {6, 6, 3};
  one.op.inputs = {Reads(0, {Index(0), {{{1, 1}}, -1, 2}}),
                   Reads(0, {Index(0), {{{1, 1}, {2, 1}}, -1, 0}}), Reads(1, {Index(0), Index(1)})};
  one.op.inputs[2].addend_axes = {2};
  one.op.outputs = {
      {2, {Index(0), Index(1)}, {Combine::kConcat, Combine::kConcat, Combine::kReduce}}};
  return one;
}

void AddLookalike(Graph* graph, Lookalike one) {
  for (const Tensor* tensor : {&one.read, &one.added, &one.written})
    graph->AddTensor(tensor->shape, tensor->element_bytes, tensor->is_replicable, 0);
  const int first = graph->num_tensors() - 3;
  for (Input& input : one.op.inputs) input.tensor += first;
  one.op.outputs[0].tensor += first;
  one.op.group = graph->num_operators();
  graph->AddOperator(std::move(one.op));
  graph->MarkOutput(first + 2);
}

/*! \brief Every property that the bytes depend on; the first changes nothing. */
const std::vector<std::function<void(Lookalike*)>> kDifferences = {
    [](Lookalike*) {},
    [](Lookalike* one) { one->op.inputs[1].fill = 1; },
    [](Lookalike* one) { one->op.inputs[2].addend_axes = {0}; },
    [](Lookalike* one) { one->op.inputs[2].addend_axes = {0, 2}; },
    [](Lookalike* one) { one->op.fetched_axes = {1}; },
    [](Lookalike* one) { one->op.inputs[2].is_held = true; },
    [](Lookalike* one) { one->op.inputs[0].rows[1].upper = 3; },
    [](Lookalike* one) { one->op.inputs[1].rows[1].terms[0].coefficient = 2; },
    [](Lookalike* one) { one->op.inputs[2].rows[1] = Index(0); },
    [](Lookalike* one) { one->op.outputs[0].combine[2] = Combine::kReplicate; },
    [](Lookalike* one) { one->op.axis_extents[2] = 6; },
    [](Lookalike* one) { one->read.element_bytes = 2; },
    [](Lookalike* one) { one->read.shape = {6, 12}; },
    [](Lookalike* one) { one->written.is_replicable = true; },
};

/*! \brief All sequences of dimensions or axes, including replication. */
std::vector<std::vector<int>> ListChoices(const WorkerGrid& grid, int count) {
  std::vector<std::vector<int>> found = {{}};
  for (int round = 0; round < grid.num_rounds(); ++round) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& history : found) {
      for (int choice = kReplicated; choice < count; ++choice) {
        longer.push_back(history);
        longer.back().push_back(choice);
      }
    }
    found = longer;
  }
  return found;
}

std::vector<int64_t> Tabulate(const Graph& graph, const WorkerGrid& grid,
                              const Incidence& incidence, const ChoiceList& choices,
                              const ChoiceList& layouts) {
  const Tensor& tensor = graph.tensor(incidence.tensor);
  std::vector<int64_t> bytes;
  for (const std::vector<int>& choice : choices.choices) {
    const PlacedAccess access = PlaceAccess(graph, incidence, grid, choice);
    for (const std::vector<int>& layout : layouts.choices)
      bytes.push_back(IncidenceBytes(
          incidence, access, PlaceLayout(graph, incidence.tensor, grid, layout), grid, tensor));
  }
  return bytes;
}

/*! \brief Compare tables, which count overlaps by dimension, with counts of each pair of choices.
 */
void TestTablesEqualTheirIncidences(const WorkerGrid& grid, bool relays) {
  Graph graph;
  if (relays) graph.RelayInGroups();
  for (const auto& change : kDifferences) {
    Lookalike one = MakeLookalike();
    change(&one);
    AddLookalike(&graph, std::move(one));
  }
  CostTables tables(std::make_shared<NumberedIncidences>(graph), grid);
  const ChoiceList choices = tables.Intern(ListChoices(grid, 3));
  const ChoiceList layouts = tables.Intern(ListChoices(grid, 2));
  std::vector<CostTables::Request> requests;
  for (size_t i = 0; i < tables.incidences().size(); ++i)
    requests.push_back({i, &choices, &layouts});
  tables.Prepare(requests, [] {});
  std::vector<std::vector<int64_t>> of_operator(graph.num_operators());
  for (size_t i = 0; i < tables.incidences().size(); ++i) {
    const Incidence& incidence = tables.incidences()[i];
    const std::vector<int64_t> own = Tabulate(graph, grid, incidence, choices, layouts);
    CHECK(tables.Get(i, choices, layouts) == own);
    of_operator[incidence.op].insert(of_operator[incidence.op].end(), own.begin(), own.end());
  }
  CHECK(tables.num_tables() < tables.incidences().size());
  for (size_t i = 1; i < of_operator.size(); ++i) CHECK(of_operator[i] != of_operator[0]);
}

}  // namespace

int main() {
  TestTablesEqualTheirIncidences(WorkerGrid({3, 2}), false);
  TestTablesEqualTheirIncidences(WorkerGrid({5}), false);
  for (const bool relays : {false, true})
    TestTablesEqualTheirIncidences(WorkerGrid({2, 3}, {3, 1}, {7, 2}), relays);
  return tofu_test::Finish("cost");
}
