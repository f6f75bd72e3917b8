/*!
 * \file incidences.cc
 */
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "core/cost/cost.h"

namespace tofu {

namespace {

void PutRow(const Row& row, std::vector<int64_t>* out) {
  out->push_back(static_cast<int64_t>(row.terms.size()));
  for (const Term& term : row.terms) {
    out->push_back(term.axis);
    out->push_back(term.coefficient);
  }
  out->push_back(row.lower);
  out->push_back(row.upper);
}

void PutRows(const std::vector<Row>& rows, std::vector<int64_t>* out) {
  for (const Row& row : rows) PutRow(row, out);
}

void PutAbsent(const Absent& absent, std::vector<int64_t>* out) {
  out->push_back(absent.dimension);
  if (absent.IsGiven()) PutRow(absent.row, out);
}

void AddRead(const Graph& graph, const Sharers& sharers, int op, size_t position,
             std::vector<Incidence>* tensor_incidences) {
  const Operator& reader = graph.op(op);
  const Input& input = reader.inputs[position];
  const int sharers_number = sharers.Of(op, position);
  auto incidence_of_sharers = std::find_if(
      tensor_incidences->begin(), tensor_incidences->end(),
      [&](const Incidence& other) { return !other.is_write && other.sharers == sharers_number; });
  if (incidence_of_sharers == tensor_incidences->end()) {
    Incidence incidence;
    incidence.op = op;
    incidence.sharers = sharers_number;
    incidence.tensor = input.tensor;
    incidence.group = reader.group;
    incidence.phase = reader.phase;
    incidence_of_sharers =
        tensor_incidences->insert(tensor_incidences->end(), std::move(incidence));
  } else if (graph.shares_regions()) {
    return;  // it reads the same regions as the first reader
  }
  for (const Input* other : incidence_of_sharers->reads) {
    if (DescribeAccess(*other) == DescribeAccess(input)) return;
  }
  incidence_of_sharers->reads.push_back(&input);
}

}  // namespace

std::vector<int64_t> DescribeRows(const std::vector<Row>& rows) {
  std::vector<int64_t> description;
  PutRows(rows, &description);
  return description;
}

std::vector<int64_t> DescribeAccess(const Input& input) {
  int64_t fill_bits;
  std::memcpy(&fill_bits, &input.fill, sizeof(fill_bits));
  std::vector<int64_t> description = {
      fill_bits,        input.is_held,  input.is_read,
      input.is_clipped, input.is_exact, static_cast<int64_t>(input.addend_axes.size())};
  description.insert(description.end(), input.addend_axes.begin(), input.addend_axes.end());
  PutRows(input.rows, &description);
  PutAbsent(input.absent, &description);
  return description;
}

std::vector<int64_t> DescribeIncidence(const Graph& graph, const Incidence& incidence) {
  const Tensor& tensor = graph.tensor(incidence.tensor);
  const std::vector<int64_t>& extents = graph.op(incidence.op).axis_extents;
  std::vector<int64_t> description = {incidence.is_write,
                                      tensor.element_bytes,
                                      tensor.times,
                                      tensor.is_replicable,
                                      static_cast<int64_t>(tensor.shape.size()),
                                      static_cast<int64_t>(extents.size())};
  const auto put = [&](const std::vector<int64_t>& values) {
    description.insert(description.end(), values.begin(), values.end());
  };
  put(tensor.shape);
  put(extents);
  for (const Input* input : incidence.reads) put(DescribeAccess(*input));
  if (incidence.write != nullptr) {
    put(DescribeRows(incidence.write->rows));
    PutAbsent(incidence.write->absent, &description);
    for (Combine combine : incidence.write->combine)
      description.push_back(static_cast<int64_t>(combine));
  }
  return description;
}

std::vector<Incidence> CollectIncidences(const Graph& graph, const Sharers& sharers) {
  std::vector<Incidence> incidences;
  std::vector<Incidence> tensor_incidences;
  for (int id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    tensor_incidences.clear();
    if (tensor.producer >= 0 && tensor.IsRead()) {
      Incidence incidence;
      incidence.is_write = true;
      incidence.op = tensor.producer;
      incidence.tensor = id;
      incidence.group = graph.op(tensor.producer).group;
      incidence.phase = graph.op(tensor.producer).phase;
      incidence.write = &graph.op(tensor.producer).outputs[tensor.producer_output];
      tensor_incidences.push_back(std::move(incidence));
    }
    for (int reader : tensor.readers) {
      const std::vector<Input>& inputs = graph.op(reader).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].tensor == id && inputs[i].is_read)
          AddRead(graph, sharers, reader, i, &tensor_incidences);
      }
    }
    for (Incidence& incidence : tensor_incidences) incidences.push_back(std::move(incidence));
  }
  return incidences;
}

}  // namespace tofu
