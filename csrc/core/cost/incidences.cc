/*!
 * \file incidences.cc
 * \brief Incidences of a graph, and keys of their costs.
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
             std::vector<Incidence>* of_tensor) {
  const Operator& reader = graph.op(op);
  const Input& input = reader.inputs[position];
  const int sharing = sharers.Of(op, position);
  auto found = std::find_if(of_tensor->begin(), of_tensor->end(), [&](const Incidence& other) {
    return !other.is_write && other.sharers == sharing;
  });
  if (found == of_tensor->end()) {
    Incidence incidence;
    incidence.op = op;
    incidence.sharers = sharing;
    incidence.tensor = input.tensor;
    incidence.group = reader.group;
    incidence.phase = reader.phase;
    found = of_tensor->insert(of_tensor->end(), std::move(incidence));
  } else if (graph.shares_regions()) {
    return;  // it reads the same regions as the first reader
  }
  for (const Input* other : found->reads) {
    if (DescribeAccess(*other) == DescribeAccess(input)) return;
  }
  found->reads.push_back(&input);
}

}  // namespace

std::vector<int64_t> DescribeRows(const std::vector<Row>& rows) {
  std::vector<int64_t> described;
  PutRows(rows, &described);
  return described;
}

std::vector<int64_t> DescribeAccess(const Input& input) {
  int64_t fill_bits;
  std::memcpy(&fill_bits, &input.fill, sizeof(fill_bits));
  std::vector<int64_t> described = {fill_bits, input.is_held, input.is_read, input.is_clipped,
                                    static_cast<int64_t>(input.addend_axes.size())};
  described.insert(described.end(), input.addend_axes.begin(), input.addend_axes.end());
  PutRows(input.rows, &described);
  PutAbsent(input.absent, &described);
  return described;
}

std::vector<int64_t> DescribeIncidence(const Graph& graph, const Incidence& incidence) {
  const Tensor& tensor = graph.tensor(incidence.tensor);
  const std::vector<int64_t>& extents = graph.op(incidence.op).axis_extents;
  std::vector<int64_t> described = {incidence.is_write,
                                    tensor.element_bytes,
                                    tensor.times,
                                    tensor.is_replicable,
                                    static_cast<int64_t>(tensor.shape.size()),
                                    static_cast<int64_t>(extents.size())};
  const auto put = [&](const std::vector<int64_t>& values) {
    described.insert(described.end(), values.begin(), values.end());
  };
  put(tensor.shape);
  put(extents);
  for (const Input* input : incidence.reads) put(DescribeAccess(*input));
  if (incidence.write != nullptr) {
    put(DescribeRows(incidence.write->rows));
    PutAbsent(incidence.write->absent, &described);
    for (Combine combine : incidence.write->combine)
      described.push_back(static_cast<int64_t>(combine));
  }
  return described;
}

std::vector<Incidence> CollectIncidences(const Graph& graph, const Sharers& sharers) {
  std::vector<Incidence> incidences;
  std::vector<Incidence> of_tensor;
  for (int id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    of_tensor.clear();
    if (tensor.producer >= 0 && tensor.IsRead()) {
      Incidence incidence;
      incidence.is_write = true;
      incidence.op = tensor.producer;
      incidence.tensor = id;
      incidence.group = graph.op(tensor.producer).group;
      incidence.phase = graph.op(tensor.producer).phase;
      incidence.write = &graph.op(tensor.producer).outputs[tensor.producer_output];
      of_tensor.push_back(std::move(incidence));
    }
    for (int reader : tensor.readers) {
      const std::vector<Input>& inputs = graph.op(reader).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].tensor == id && inputs[i].is_read)
          AddRead(graph, sharers, reader, i, &of_tensor);
      }
    }
    for (Incidence& incidence : of_tensor) incidences.push_back(std::move(incidence));
  }
  return incidences;
}

}  // namespace tofu
