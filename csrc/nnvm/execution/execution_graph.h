/*!
 * \file execution_graph.h
 * \brief Construction of the execution graph, an NNVM graph for all workers: copies of operators,
 * and fetches between them.
 */
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/program/program.h"
#include "nnvm/base/mxnet_api.h"
#include "nnvm/execution/operator_clone.h"

namespace tofu::nnvm_layer {

/*! \brief Attributes in which a worker's node differs from the whole operator. */
using AttributeChanges = std::unordered_map<std::string, std::string>;

/*! \brief An operator of the program without a node in the training graph. */
struct OwnOperator {
  std::string name;
  std::string op;
  std::unordered_map<std::string, std::string> attributes;
  std::vector<int> input_types;  // MXNet's type codes
  std::vector<int> output_types;
};

/*!
 * \brief Operator id -> outputs that all copies of the operator compute although nobody reads them.
 *
 * If an output is not requested, some kernels skip other outputs too: GroupNorm computes no mean
 * without its first output.
 */
using RequestedOutputs = std::unordered_map<int64_t, std::vector<uint32_t>>;

/*! \brief The nodes, attributes and names that the numbers of a program stand for. */
struct ExecutionInput {
  SymbolHandle training = 0;
  std::vector<int64_t> operator_nodes;  // operator id -> node of the training graph, or -1
  std::unordered_map<int64_t, OwnOperator>
      own_operators;                         // operator id -> operator without such a node
  std::vector<AttributeChanges> attributes;  // distinct sets
  std::vector<int32_t> attribute_index;      // [operator id][worker] -> set of changes, or -1
  RequestedOutputs requested_outputs;
  std::vector<std::string> tensor_names;          // tensor id -> name; of variables, their own
  std::vector<int> tensor_types;                  // tensor id -> MXNet's type code
  std::vector<int64_t> variables;                 // ids of the tensors that no operator produces
  std::unordered_map<int64_t, Reducer> reducers;  // of partial results that are not summed
};

/*! \brief The operator that sums two gradients if the second's kernel cannot add to the first. */
constexpr char kPlainSumName[] = "elemwise_add";

/*! \brief Return true for a sum of gradients in place: the kernel of the second gradient adds to
 * the first. */
bool IsSumInPlace(const nnvm::Op* op);

/*! \brief Return true if the kernel of an operator adds to its output on request; null means a
 * variable. Some kernels overwrite the output instead, such as clip, cumsum and convolutions with a
 * kernel of one element; mean divides it. The operators listed here are tested in all forms, and
 * produce large gradients with many readers. */
bool AddsToOutputs(const nnvm::Op* op);

/*! \brief List the inputs that a node gets as copies, because its kernel overwrites them. A fixed
 * gamma is copied if it is not a variable, because the kernel sets it to ones. */
template <typename IsVariable>
std::vector<uint32_t> ListCopiedInputs(const nnvm::NodeAttrs& attrs,
                                       const IsVariable& is_variable) {
  std::vector<uint32_t> inputs = ListSpoiledInputs(attrs);
  for (uint32_t input : ListSetInputs(attrs)) {
    if (!is_variable(input)) inputs.push_back(input);
  }
  return inputs;
}

class TrainingGraph;

/*!
 * \brief Builds execution graphs of programs for one training graph.
 *
 * Variables are named tensor@worker and carry their shape and type. Operators are named
 * name@worker, and fetches tensor@worker#position, which is their position in the program.
 * Control dependencies keep the order of the program, since memory is planned for this order. They
 * cost nothing at run time, where only data and buffers order nodes. All nodes have different
 * attributes, so that MXNet merges none.
 */
class ExecutionGraphBuilder {
 public:
  explicit ExecutionGraphBuilder(ExecutionInput input);

  /*!
   * \brief Return a new handle of the graph of a program.
   * \throw dmlc::Error, std::invalid_argument if program and training graph do not fit together
   */
  SymbolHandle Build(const Program& program) const;

  const ExecutionInput& input() const { return *input_; }

  /*! \brief Return the attributes of a copy of an operator. */
  nnvm::NodeAttrs MakeAttributes(const ProgramNode& node) const;

  /*! \brief Return the types of an operator's inputs or outputs. */
  std::vector<int> ListInputTypes(int64_t op) const;
  std::vector<int> ListOutputTypes(int64_t op) const;

 private:
  const OwnOperator& FindOwnOperator(int64_t op) const;
  nnvm::NodeAttrs MakeOwnAttributes(const ProgramNode& node) const;

  /*! \brief Return the attributes in which a worker's copy differs from the operator. */
  const AttributeChanges& ChangesOf(const ProgramNode& node) const;

  /*! \brief Apply the worker's changes and parse the attributes again. A backward operator without
   * a parser uses the parser of its forward operator. */
  void ChangeAttributes(const ProgramNode& node, const nnvm::IndexedGraph::Node& source,
                        nnvm::NodeAttrs* attrs) const;

  std::shared_ptr<const ExecutionInput> input_;
  std::shared_ptr<const TrainingGraph> training_;
};

}  // namespace tofu::nnvm_layer
