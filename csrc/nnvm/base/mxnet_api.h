/*!
 * \file mxnet_api.h
 * \brief The parts of MXNet 1.9.1 that csrc/nnvm uses: public headers, and exported functions that
 * only private headers declare (src/executor/exec_pass.h, graph_executor.h).
 */
#pragma once

#include <mxnet/base.h>
#include <mxnet/executor.h>
#include <mxnet/graph_attr_types.h>
#include <mxnet/ndarray.h>
#include <mxnet/op_attr_types.h>
#include <nnvm/graph.h>
#include <nnvm/node.h>
#include <nnvm/op.h>
#include <nnvm/op_attr_types.h>
#include <nnvm/pass.h>
#include <nnvm/pass_functions.h>
#include <nnvm/symbolic.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mxnet::exec {
nnvm::Graph InferShape(nnvm::Graph&& graph, mxnet::ShapeVector&& shapes, const std::string& key);
nnvm::Graph InferType(nnvm::Graph&& graph, nnvm::DTypeVector&& types, const std::string& key);
nnvm::Graph InferStorageType(nnvm::Graph&& graph, std::vector<int>&& types, const std::string& key);
nnvm::Graph DetectInplaceAddTo(nnvm::Graph graph);
nnvm::NodeEntry AggregateGradient(std::vector<nnvm::NodeEntry>&& parts);

/*! \brief The first and only base of every mxnet::Executor. */
class GraphExecutor {
 public:
  /*! \brief Issue the nodes [begin, end) of the graph. */
  void RunOps(bool is_train, size_t begin, size_t end);

  /*! \brief Run the nodes [begin, end), all on one device, as operations of at most `max_nodes`
   * nodes. */
  void BulkOpSegs(size_t begin, size_t end, size_t max_nodes);
};
}  // namespace mxnet::exec

namespace tofu::nnvm_layer {

/*! \brief A symbol in Python: the integer value of `sym.handle`. */
using SymbolHandle = std::uintptr_t;

/*! \brief The integer value of an executor's or an array's handle. */
using ObjectHandle = std::uintptr_t;

/*! \brief The symbol of a handle. Its nodes live as long as the handle. */
inline const nnvm::Symbol& SymbolOf(SymbolHandle handle) {
  CHECK(handle != 0) << "Need the handle of a symbol, got a null handle";
  return *reinterpret_cast<const nnvm::Symbol*>(handle);
}

/*! \brief A graph that shares the nodes of a symbol, which must outlive it. */
inline nnvm::Graph GraphOf(SymbolHandle handle) {
  nnvm::Graph graph;
  graph.outputs = SymbolOf(handle).outputs;
  return graph;
}

/*! \brief Return a new handle, which the caller owns. */
inline SymbolHandle NewHandle(std::vector<nnvm::NodeEntry> outputs) {
  auto symbol = std::make_unique<nnvm::Symbol>();
  symbol->outputs = std::move(outputs);
  return reinterpret_cast<SymbolHandle>(symbol.release());
}

inline mxnet::NDArray* ArrayOf(ObjectHandle handle) {
  CHECK(handle != 0) << "Need the handle of an array, got a null handle";
  return reinterpret_cast<mxnet::NDArray*>(handle);
}

/*! \brief The text of a node's attribute, or null. */
inline const std::string* FindText(const nnvm::NodeAttrs& attrs, const std::string& key) {
  const auto found = attrs.dict.find(key);
  return found == attrs.dict.end() ? nullptr : &found->second;
}

/*! \brief Return true if all shapes are known. */
inline bool AreKnown(const mxnet::ShapeVector& shapes) {
  return std::all_of(shapes.begin(), shapes.end(),
                     [](const mxnet::TShape& shape) { return mxnet::shape_is_known(shape); });
}

/*! \brief Level of attributes above the default of 10, to replace values set by other libraries. */
constexpr int kAttributeLevel = 11;

/*! \brief Give an operator an attribute of another one, if that has it. */
template <typename T>
void CopyAttr(const nnvm::Op* from, nnvm::Op* to, const std::string& key) {
  const auto& values = nnvm::Op::GetAttr<T>(key);
  if (values.contains(from)) to->set_attr<T>(key, values[from], kAttributeLevel);
}

template <typename T>
void SetGraphAttr(nnvm::Graph* graph, const char* key, T value) {
  graph->attrs[key] = std::make_shared<nnvm::any>(std::move(value));
}

/*! \brief Replace the body of a pass once. `original` receives MXNet's body. */
inline void ReplacePass(const char* name, nnvm::PassFunction body, nnvm::PassFunction* original) {
  if (*original != nullptr) return;
  auto& pass = dmlc::Registry<nnvm::PassFunctionReg>::Get()->__REGISTER_OR_GET__(name);
  CHECK(pass.body != nullptr) << "this MXNet has no pass " << name;
  *original = pass.body;
  pass.set_body(std::move(body));
}

}  // namespace tofu::nnvm_layer
