/*!
 * \file graph_info.h
 * \brief Descriptions of graphs and operators for Python.
 */
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief Number of a node, and number of one of its outputs. */
using EntryRef = std::pair<uint32_t, uint32_t>;

/*! \brief Return the value of an operator's attribute, or T() if the operator is null or lacks it.
 */
template <typename T>
T GetOpAttr(const nnvm::Op* op, const char* key) {
  return nnvm::Op::GetAttr<T>(key).get(op, T());
}

/*!
 * \brief Check the edges of a symbol, as MXNet does not when it loads one: inputs exist, operators
 * have as many inputs as they need, and there is no cycle.
 * \\throw dmlc::Error naming the node
 */
void CheckEdges(SymbolHandle symbol);

/*! \brief List, for each node, the names that MXNet's monitors give its inputs. */
std::vector<std::vector<std::string>> ListMonitoredInputs(SymbolHandle symbol);

std::vector<EntryRef> ListOutputs(SymbolHandle symbol);

/*! \brief List the names of an operator's inputs, unless they depend on attributes: from the
 * registered function if it can be called, else from the documentation. */
std::vector<std::string> ListInputNames(const nnvm::Op* op);

/*! \brief Return true if the operator asks for a random number generator. */
bool IsRandom(const nnvm::Op* op);

/*! \brief List the inputs that a node's operator changes, such as auxiliary or optimizer states. */
std::vector<uint32_t> ListMutableInputs(const nnvm::NodeAttrs& attrs);

/*! \brief List inputs of which a kernel reads only the shape. */
std::vector<uint32_t> ListIgnoredInputs(const nnvm::NodeAttrs& attrs);

}  // namespace tofu::nnvm_layer
