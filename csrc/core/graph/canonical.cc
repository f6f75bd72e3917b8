/*!
 * \file canonical.cc
 */
#include "core/graph/canonical.h"

#include <cstring>
#include <utility>

namespace tofu {

namespace {

uint64_t HashRow(uint64_t seed, const Row& row) {
  seed = HashCombine(seed, row.terms.size());
  for (const Term& term : row.terms) {
    seed = HashCombine(HashCombine(seed, static_cast<uint64_t>(term.axis)),
                       static_cast<uint64_t>(term.coefficient));
  }
  return HashCombine(HashCombine(seed, static_cast<uint64_t>(row.lower)),
                     static_cast<uint64_t>(row.upper));
}

uint64_t HashRows(uint64_t seed, const std::vector<Row>& rows, const Absent& absent) {
  for (const Row& row : rows) seed = HashRow(seed, row);
  if (!absent.IsGiven()) return seed;
  return HashRow(HashCombine(seed, static_cast<uint64_t>(absent.dimension)), absent.row);
}

uint64_t HashExtents(uint64_t seed, const std::vector<int64_t>& extents) {
  seed = HashCombine(seed, extents.size());
  for (int64_t extent : extents) seed = HashCombine(seed, static_cast<uint64_t>(extent));
  return seed;
}

uint64_t HashInput(uint64_t seed, const Input& input, uint64_t tensor_hash) {
  seed = HashRows(HashCombine(seed, tensor_hash), input.rows, input.absent);
  for (int axis : input.addend_axes) seed = HashCombine(seed, static_cast<uint64_t>(axis));
  uint64_t fill_bits;
  std::memcpy(&fill_bits, &input.fill, sizeof(fill_bits));
  seed = HashCombine(HashCombine(HashCombine(seed, fill_bits), input.is_held), input.is_read);
  return input.is_exact ? HashCombine(seed, 1) : seed;
}

/*! \brief The two passes over a graph, each refining `labels_`. */
class LabelPasses {
 public:
  explicit LabelPasses(const Graph& graph) : graph_(graph) {
    for (int id = 0; id < graph.num_operators(); ++id)
      labels_.operators.push_back(LocalOperator(graph.op(id)));
    for (int id = 0; id < graph.num_tensors(); ++id)
      labels_.tensors.push_back(LocalTensor(graph.tensor(id)));
  }

  void Forward() {
    CanonicalLabels next_labels = labels_;
    for (int id = 0; id < graph_.num_operators(); ++id) {
      const Operator& op = graph_.op(id);
      uint64_t hash = labels_.operators[id];
      for (const Input& input : op.inputs)
        hash = HashInput(hash, input, next_labels.tensors[input.tensor]);
      if (op.follows_tensor >= 0) hash = HashCombine(hash, next_labels.tensors[op.follows_tensor]);
      next_labels.operators[id] = hash;
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        uint64_t& tensor = next_labels.tensors[op.outputs[i].tensor];
        tensor = HashRows(HashCombine(HashCombine(tensor, hash), i), op.outputs[i].rows,
                          op.outputs[i].absent);
        for (Combine combine : op.outputs[i].combine)
          tensor = HashCombine(tensor, static_cast<uint64_t>(combine));
      }
    }
    labels_ = std::move(next_labels);
  }

  void Backward() {
    CanonicalLabels next_labels = labels_;
    for (int id = graph_.num_operators() - 1; id >= 0; --id) {
      const Operator& op = graph_.op(id);
      uint64_t hash = labels_.operators[id];
      for (const Output& output : op.outputs)
        hash = HashCombine(hash, next_labels.tensors[output.tensor]);
      next_labels.operators[id] = hash;
      // Consumers have no order, so their contributions are added up.
      for (size_t i = 0; i < op.inputs.size(); ++i)
        next_labels.tensors[op.inputs[i].tensor] += HashCombine(HashCombine(hash, i), 1);
      if (op.follows_tensor >= 0) next_labels.tensors[op.follows_tensor] += HashCombine(hash, 2);
    }
    labels_ = std::move(next_labels);
  }

  CanonicalLabels Take() { return std::move(labels_); }

 private:
  static uint64_t LocalOperator(const Operator& op) {
    return HashCombine(HashCombine(HashExtents(1, op.axis_extents), op.label),
                       static_cast<uint64_t>(op.phase));
  }
  static uint64_t LocalTensor(const Tensor& tensor) {
    uint64_t hash = HashCombine(HashExtents(2, tensor.shape), tensor.label);
    hash = HashCombine(HashCombine(hash, static_cast<uint64_t>(tensor.element_bytes)),
                       tensor.is_replicable);
    for (int position : tensor.output_positions)
      hash = HashCombine(hash, static_cast<uint64_t>(position));
    return hash;
  }

  const Graph& graph_;
  CanonicalLabels labels_;
};

}  // namespace

CanonicalLabels ComputeLabels(const Graph& graph) {
  LabelPasses passes(graph);
  for (int round = 0; round < 2; ++round) {
    passes.Forward();
    passes.Backward();
  }
  return passes.Take();
}

}  // namespace tofu
