/*!
 * \file graph.cc
 */
#include "core/graph/graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/text.h"

namespace tofu {
namespace {

void CheckAxis(const std::string& subject, int axis, const Operator& op) {
  if (axis >= 0 && axis < static_cast<int>(op.axis_extents.size())) return;
  Refuse(subject, " axis ", axis, ": the operator has ", op.axis_extents.size(), " axes");
}

std::string OperatorName(int id) { return Text("operator ", id); }

std::string TensorName(int id) { return Text("tensor ", id); }

}  // namespace

std::string FormatList(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

int64_t Tensor::NumElements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

bool Operator::IsFetched(const std::vector<int>& choice) const {
  return is_always_fetched || std::find_first_of(choice.begin(), choice.end(), fetched_axes.begin(),
                                                 fetched_axes.end()) != choice.end();
}

int Graph::CheckTensor(int id) const {
  if (id < 0 || id >= num_tensors()) {
    Refuse(TensorName(id), " does not exist: the graph has tensors 0 to ", num_tensors() - 1);
  }
  return id;
}

int Graph::CheckOperator(int id) const {
  if (id < 0 || id >= num_operators()) {
    Refuse(OperatorName(id), " does not exist: the graph has operators 0 to ", num_operators() - 1);
  }
  return id;
}

int Graph::AddTensor(std::vector<int64_t> shape, int64_t element_bytes, bool is_replicable,
                     uint64_t label, int64_t times) {
  const int id = num_tensors();
  for (int64_t extent : shape) {
    if (extent <= 0)
      Refuse(TensorName(id), " has shape ", FormatList(shape), ": every extent must be positive");
  }
  if (element_bytes <= 0)
    Refuse(TensorName(id), " has elements of ", element_bytes, " bytes: must be positive");
  int64_t bytes = element_bytes;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMaxTensorBytes) {
      Refuse(TensorName(id), " of shape ", FormatList(shape), " has elements of ", element_bytes,
             " bytes: more than 2^61 bytes cannot be counted");
    }
  }
  if (times <= 0) Refuse(TensorName(id), " is made ", times, " times: must be positive");
  Tensor tensor;
  tensor.shape = std::move(shape);
  tensor.element_bytes = element_bytes;
  tensor.is_replicable = is_replicable;
  tensor.label = label;
  tensor.times = times;
  tensors_.push_back(std::move(tensor));
  tensor_parents_.push_back(id);
  return id;
}

void Graph::CheckRows(const std::string& where, const Operator& op, int tensor,
                      const std::vector<Row>& rows) const {
  const size_t rank = this->tensor(tensor).shape.size();
  if (rows.size() != rank) {
    Refuse(where, " has ", rows.size(), " rows for ", TensorName(tensor), " of rank ", rank,
           ": one row per dimension is needed");
  }
  for (size_t d = 0; d < rank; ++d) {
    const std::string place = where + ", dimension " + std::to_string(d);
    if (rows[d].upper <= rows[d].lower) {
      Refuse(place, ": upper ", rows[d].upper, " must be greater than lower ", rows[d].lower);
    }
    for (const Term& term : rows[d].terms) {
      CheckAxis(place + " names", term.axis, op);
      if (term.coefficient == 0) Refuse(place, " has a term with coefficient 0: leave it out");
    }
  }
}

void Graph::CheckInput(int id, const Operator& op, size_t position) const {
  const Input& input = op.inputs[position];
  const std::string where = OperatorName(id) + ", input " + std::to_string(position);
  CheckRows(where, op, input.tensor, input.rows);
  CheckAbsent(where, op, input.tensor, input.absent);
  for (int axis : input.addend_axes) CheckAxis(where + " is an addend of", axis, op);
}

void Graph::CheckOutput(int id, const Operator& op, size_t position) const {
  const Output& output = op.outputs[position];
  const std::string where = OperatorName(id) + ", output " + std::to_string(position);
  CheckRows(where, op, output.tensor, output.rows);
  CheckAbsent(where, op, output.tensor, output.absent);
  const Tensor& tensor = this->tensor(output.tensor);
  if (output.combine.size() != op.axis_extents.size()) {
    Refuse(where, " says for ", output.combine.size(),
           " axes how parts come together: the operator has ", op.axis_extents.size());
  }
  if (tensor.producer >= 0) {
    Refuse(where, ": ", TensorName(output.tensor), " is already produced by ",
           OperatorName(tensor.producer));
  }
  if (!tensor.readers.empty() || !tensor.followers.empty()) {
    Refuse(where, ": ", TensorName(output.tensor),
           " is used before it is produced; add operators in topological order");
  }
  for (const Input& input : op.inputs) {
    if (input.tensor == output.tensor)
      Refuse(where, ": ", TensorName(output.tensor), " is an input of the same operator");
  }
  for (size_t other = 0; other < position; ++other) {
    if (op.outputs[other].tensor == output.tensor)
      Refuse(where, ": ", TensorName(output.tensor), " is listed twice");
  }
}

void Graph::CheckChoiceLinks(int id, const Operator& op) const {
  if (op.follows_tensor >= 0 && op.same_choice_as >= 0) {
    Refuse(OperatorName(id),
           " follows a tensor and shares an operator's choice: only one of the two is possible");
  }
  if (op.follows_tensor >= 0) {
    if (tensor(op.follows_tensor).shape != op.axis_extents) {
      Refuse(OperatorName(id), " of axes ", FormatList(op.axis_extents), " follows ",
             TensorName(op.follows_tensor), " of shape ",
             FormatList(tensor(op.follows_tensor).shape), ": they must be equal");
    }
    if (!op.outputs.empty())
      Refuse(OperatorName(id), " follows a tensor and has outputs: updates have none");
  }
  if (op.same_choice_as >= 0 && this->op(op.same_choice_as).axis_extents != op.axis_extents) {
    Refuse(OperatorName(id), " of axes ", FormatList(op.axis_extents), " shares the choice of ",
           OperatorName(op.same_choice_as), " of axes ",
           FormatList(this->op(op.same_choice_as).axis_extents), ": they must be equal");
  }
}

void Graph::CheckAbsent(const std::string& where, const Operator& op, int tensor,
                        const Absent& absent) const {
  if (!absent.IsGiven()) return;
  const size_t rank = this->tensor(tensor).shape.size();
  const std::string place = where + ": " + TensorName(tensor) + " of rank " + std::to_string(rank) +
                            " lacks dimension " + std::to_string(absent.dimension);
  if (!op.CanBeFetched()) Refuse(place, ": no copy of an operator adds one, only fetches do");
  if (rank == 0 || absent.dimension > static_cast<int>(rank))
    Refuse(place, ": it may lack one of 0 to its own rank, which is 1 at least");
  for (const Term& term : absent.row.terms) CheckAxis(place + " along", term.axis, op);
}

void Graph::CheckFetched(int id, const Operator& op) const {
  if (!op.CanBeFetched()) return;
  for (int axis : op.fetched_axes) CheckAxis(OperatorName(id) + " is fetched along", axis, op);
  for (const Input& input : op.inputs) {
    for (const Output& output : op.outputs) {
      const Tensor& source = tensor(input.tensor);
      const Tensor& target = tensor(output.tensor);
      const bool is_alike = source.shape.size() + input.absent.IsGiven() ==
                                target.shape.size() + output.absent.IsGiven() &&
                            source.element_bytes == target.element_bytes;
      if (!input.is_read || is_alike) continue;
      Refuse(
          OperatorName(id), " is fetched, and ", TensorName(input.tensor), " of rank ",
          source.shape.size(), " and ", source.element_bytes, " bytes is no part of ",
          TensorName(output.tensor), " of rank ", target.shape.size(), " and ",
          target.element_bytes,
          " bytes: cells are moved between tensors of equal elements, and of equal ranks with the "
          "dimensions that they lack");
    }
  }
}

void Graph::CheckNestings(int id, const Operator& op) const {
  for (const Nesting& nesting : op.nestings) {
    CheckAxis(OperatorName(id) + " nests", nesting.inner, op);
    CheckAxis(OperatorName(id) + " nests an axis in", nesting.outer, op);
    if (nesting.inner == nesting.outer)
      Refuse(OperatorName(id), " nests axis ", nesting.inner, " in itself");
  }
}

void Graph::CheckGroup(int id, const Operator& op) {
  const auto inserted = group_first_.emplace(op.group, id);
  if (inserted.second) return;
  const int first = inserted.first->second;
  if (operators_[first].axis_extents != op.axis_extents) {
    Refuse(OperatorName(id), " of axes ", FormatList(op.axis_extents), " is in group ", op.group,
           " with ", OperatorName(first), " of axes ", FormatList(operators_[first].axis_extents),
           ": operators that share fetches must have equal ones");
  }
}

int Graph::AddOperator(Operator op) {
  const int id = num_operators();
  for (int64_t extent : op.axis_extents) {
    if (extent <= 0)
      Refuse(OperatorName(id), " has axes ", FormatList(op.axis_extents),
             ": every extent must be positive");
  }
  if (!IsPhase(op.phase))
    Refuse(OperatorName(id), " has phase ", op.phase, ": phases are 0, 1 and 2");
  for (size_t i = 0; i < op.inputs.size(); ++i) CheckInput(id, op, i);
  for (size_t i = 0; i < op.outputs.size(); ++i) CheckOutput(id, op, i);
  CheckChoiceLinks(id, op);
  CheckFetched(id, op);
  CheckNestings(id, op);
  for (Input& input : op.inputs) {
    input.is_clipped = op.CanBeFetched();
    input.is_exact = op.is_always_fetched;
  }
  const int root = op.same_choice_as >= 0 ? choice_roots_[op.same_choice_as] : id;
  CheckGroup(id, op);
  for (const Input& input : op.inputs) {
    if (!input.is_read) continue;
    std::vector<int>& readers = tensors_[input.tensor].readers;
    if (readers.empty() || readers.back() != id) readers.push_back(id);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    tensors_[op.outputs[i].tensor].producer = id;
    tensors_[op.outputs[i].tensor].producer_output = static_cast<int>(i);
  }
  if (op.follows_tensor >= 0) tensors_[op.follows_tensor].followers.push_back(id);
  if (root != id) KeepCommonSplits(root, op);
  operators_.push_back(std::move(op));
  choice_roots_.push_back(root);
  return id;
}

void Graph::ShareChoices(const std::vector<std::pair<int, int>>& bound) {
  for (const auto& [id, earlier] : bound) {
    Operator changed_operator = op(id);
    if (CheckOperator(earlier) >= id)
      Refuse(OperatorName(id), " shares the choice of ", OperatorName(earlier),
             ": it has to be an earlier one");
    changed_operator.same_choice_as = earlier;
    CheckChoiceLinks(id, changed_operator);
    operators_[id].same_choice_as = earlier;
  }
  for (int id = 0; id < num_operators(); ++id) {
    const int earlier = operators_[id].same_choice_as;
    choice_roots_[id] = earlier >= 0 ? choice_roots_[earlier] : id;
    if (earlier >= 0) KeepCommonSplits(choice_roots_[id], operators_[id]);
  }
}

void Graph::KeepCommonSplits(int root, const Operator& op) {
  const std::vector<int>& axes = op.uneven_axes;
  std::vector<int>& common_axes = operators_[root].uneven_axes;
  const auto is_missing = [&](int axis) {
    return std::find(axes.begin(), axes.end(), axis) == axes.end();
  };
  common_axes.erase(std::remove_if(common_axes.begin(), common_axes.end(), is_missing),
                    common_axes.end());
  std::vector<Nesting>& all_nestings = operators_[root].nestings;
  for (const Nesting& nesting : op.nestings) {
    const auto is_same = [&](const Nesting& known) {
      return known.inner == nesting.inner && known.outer == nesting.outer;
    };
    if (std::none_of(all_nestings.begin(), all_nestings.end(), is_same))
      all_nestings.push_back(nesting);
  }
}

std::vector<int> Graph::UnevenAxes(int op) const {
  const Operator& root = this->op(ChoiceRoot(op));
  return root.follows_tensor >= 0 ? UnevenDimensions(root.follows_tensor) : root.uneven_axes;
}

std::vector<int> Graph::UnevenDimensions(int tensor) const {
  const Tensor& first = this->tensor(TensorClass(tensor));
  std::vector<int> dimensions(first.is_uneven ? first.shape.size() : 0);
  std::iota(dimensions.begin(), dimensions.end(), 0);
  return dimensions;
}

int Graph::TensorClass(int id) const {
  CheckTensor(id);
  while (tensor_parents_[id] != id) id = tensor_parents_[id];
  return id;
}

void Graph::TieTensors(int a, int b) {
  if (tensor(a).shape != tensor(b).shape) {
    Refuse(TensorName(a), " of shape ", FormatList(tensor(a).shape), " cannot be tied to ",
           TensorName(b), " of shape ", FormatList(tensor(b).shape),
           ": tied tensors have one layout");
  }
  if (tensor(a).is_replicable != tensor(b).is_replicable) {
    Refuse(TensorName(a), " and ", TensorName(b),
           " cannot be tied: one of them is replicable, so that their choices differ");
  }
  const int first = TensorClass(a);
  const int second = TensorClass(b);
  tensors_[first].is_uneven = tensors_[second].is_uneven =
      tensors_[first].is_uneven && tensors_[second].is_uneven;
  tensor_parents_[a] = tensor_parents_[b] = tensor_parents_[std::max(first, second)] =
      std::min(first, second);
}

void Graph::Hold(int tensor, double price) {
  CheckTensor(tensor);
  if (!std::isfinite(price) || price < 0) {
    Refuse(TensorName(tensor), " cannot be held at a price of ", price,
           ": a price is a finite number, not negative");
  }
  tensors_[tensor].holding_price = price;
}

void Graph::Repeat(int op) { operators_[CheckOperator(op)].may_repeat = true; }

void Graph::MarkOutput(int tensor) {
  tensors_[CheckTensor(tensor)].output_positions.push_back(num_outputs_++);
}

}  // namespace tofu
