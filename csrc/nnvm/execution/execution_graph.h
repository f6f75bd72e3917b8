/*!
 * \file execution_graph.h
 * \brief The execution program as an NNVM graph: k copies of the operators and the fetches between
 * them.
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

/*! \brief Node attributes that differ from those of the whole operator, by name. */
using AttributeChanges = std::unordered_map<std::string, std::string>;

/*! \brief An operator of the program that the training graph has no node of. */
struct OwnOperator {
  std::string name;
  std::string op;
  std::unordered_map<std::string, std::string> attributes;
  std::vector<int> input_types;  // MXNet's type codes
};

/*! \brief Operator id -> outputs that all of its copies compute, also those whose own nobody reads.
 *
 * Kernels of several outputs leave out others than the one that is not asked for: GroupNorm without
 * its first output computes no mean.
 */
using AskedOutputs = std::unordered_map<int64_t, std::vector<uint32_t>>;

/*! \brief A program, and what its numbers mean in the graph that was partitioned. */
struct ExecutionInput {
  SymbolHandle training = 0;
  Program program;
  std::vector<int64_t> operator_nodes;  // operator id -> node of the training graph; -1: not in it
  std::unordered_map<int64_t, OwnOperator>
      own_operators;                         // operator id -> what it is, if not in it
  std::vector<AttributeChanges> attributes;  // distinct sets of changes
  std::vector<int32_t> attribute_index;      // [operator id][worker] -> set of changes; -1: none
  AskedOutputs asked_outputs;
  std::vector<std::string> tensor_names;          // tensor id -> name; variables have their own
  std::vector<int> tensor_types;                  // tensor id -> MXNet's type code
  std::unordered_map<int64_t, Reducer> reducers;  // of partial results that are not added
};

/*!
 * \brief Build the graph.
 *
 * Variables are called tensor@worker and carry their shape and type, operators name@worker, fetches
 * tensor@worker#position. Control dependencies keep the program's order, in which memory is
 * planned; they cost nothing at run time, where only data and buffers order nodes. No two nodes
 * have equal attributes, so that MXNet merges none.
 * \throw dmlc::Error, std::invalid_argument where program and training graph do not fit together
 */
SymbolHandle BuildExecutionGraph(const ExecutionInput& input);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_EXECUTION_GRAPH_H_
