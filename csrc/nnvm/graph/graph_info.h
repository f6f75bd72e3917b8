/*!
 * \file graph_info.h
 * \brief Descriptions of graphs and operators for Python.
 */
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief Number of a node, and number of one of its outputs. */
using EntryRef = std::pair<uint32_t, uint32_t>;

/*! \brief A node of a graph, in the topological order of nnvm::IndexedGraph. */
struct NodeInfo {
  std::string name;
  std::string op;  // "null" for variables
  std::unordered_map<std::string, std::string> attrs;
  std::vector<EntryRef> inputs;
  std::vector<uint32_t> control_deps;
  uint32_t num_outputs = 1;
  uint32_t entry = 0;  // position of output 0 among all entries of the graph
  bool is_backward = false;
  bool is_layer_backward = false;  // needs the state of its forward node on the same device
  bool is_aux = false;
  std::vector<uint32_t> mutable_inputs;
  std::vector<uint32_t> ignored_inputs;  // only their shapes are used
};

/*!
 * \brief Check the edges of a symbol, as MXNet does not when it loads one: inputs exist, operators
 * have as many inputs as they need, and there is no cycle.
 * \\throw dmlc::Error naming the node
 */
void CheckEdges(SymbolHandle symbol);

/*! \brief Facts that MXNet has registered about an operator. */
struct OperatorInfo {
  bool is_backward = false;
  bool is_layer_backward = false;
  bool stateful = false;
  bool has_infer_shape = false;
  bool is_random = false;                // asks for a random number generator
  std::vector<std::string> input_names;  // unless they depend on attributes
};

std::vector<NodeInfo> ListNodes(SymbolHandle symbol);

/*! \brief List, for each node, the names that MXNet's monitors give its inputs. */
std::vector<std::vector<std::string>> ListMonitoredInputs(SymbolHandle symbol);

std::vector<EntryRef> ListOutputs(SymbolHandle symbol);

/*! \throw dmlc::Error if no operator has this name */
OperatorInfo DescribeOperator(const std::string& op);

/*! \brief List the inputs that a node's operator changes, such as auxiliary or optimizer states. */
std::vector<uint32_t> ListMutableInputs(const nnvm::NodeAttrs& attrs);

/*! \brief List inputs of which a kernel reads only the shape. */
std::vector<uint32_t> ListIgnoredInputs(const nnvm::NodeAttrs& attrs);

}  // namespace tofu::nnvm_layer
