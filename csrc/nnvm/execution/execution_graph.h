/*!
 * \file execution_graph.h
 * \brief Construction of the execution graph, an NNVM graph for all workers: copies of operators,
 * and fetches between them.
 */
#ifndef TOFU_NNVM_EXECUTION_EXECUTION_GRAPH_H_
#define TOFU_NNVM_EXECUTION_EXECUTION_GRAPH_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/program/program.h"
#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief Attributes in which a worker's node differs from the whole operator. */
using AttributeChanges = std::unordered_map<std::string, std::string>;

/*! \brief An operator of the program without a node in the training graph. */
struct OwnOperator {
  std::string name;
  std::string op;
  std::unordered_map<std::string, std::string> attributes;
  std::vector<int> input_types;  // MXNet's type codes
};

/*!
 * \brief Operator id -> outputs that all copies of the operator compute although nobody reads them.
 *
 * If an output is not requested, some kernels skip other outputs too: GroupNorm computes no mean
 * without its first output.
 */
using AskedOutputs = std::unordered_map<int64_t, std::vector<uint32_t>>;

/*! \brief A program, and the nodes, attributes and names that its numbers stand for. */
struct ExecutionInput {
  SymbolHandle training = 0;
  Program program;
  std::vector<int64_t> operator_nodes;  // operator id -> node of the training graph, or -1
  std::unordered_map<int64_t, OwnOperator>
      own_operators;                         // operator id -> operator without such a node
  std::vector<AttributeChanges> attributes;  // distinct sets
  std::vector<int32_t> attribute_index;      // [operator id][worker] -> set of changes, or -1
  AskedOutputs asked_outputs;
  std::vector<std::string> tensor_names;          // tensor id -> name; of variables, their own
  std::vector<int> tensor_types;                  // tensor id -> MXNet's type code
  std::unordered_map<int64_t, Reducer> reducers;  // of partial results that are not summed
};

/*!
 * \brief Build the graph.
 *
 * Variables are named tensor@worker and carry their shape and type. Operators are named
 * name@worker, and fetches tensor@worker#position. Control dependencies keep the order of the
 * program, since memory is planned for this order. They cost nothing at run time, where only data
 * and buffers order nodes. All nodes have different attributes, so that MXNet merges none.
 * \\throw dmlc::Error, std::invalid_argument if program and training graph do not fit together
 */
SymbolHandle BuildExecutionGraph(const ExecutionInput& input);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_EXECUTION_GRAPH_H_
