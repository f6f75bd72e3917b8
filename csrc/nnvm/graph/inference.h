/*!
 * \file inference.h
 * \brief Inference of shapes and types by MXNet.
 */
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief Extents; -1 means unknown. Callers may also pass 0 or any negative number for unknown. */
using Extents = std::vector<int64_t>;

/*! \brief A shape whose rank may be unknown. */
struct MaybeShape {
  bool has_rank = false;
  Extents extents;
};

using ShapesByName = std::map<std::string, Extents>;
using TypesByName = std::map<std::string, int>;

/*! \brief Node attributes from which inference reads shapes and types of variables. */
extern const char kShapeAttribute[];
extern const char kTypeAttribute[];

mxnet::TShape ToShape(const Extents& extents);
MaybeShape FromShape(const mxnet::TShape& shape);

/*!
 * \brief Infer the graph attributes "shape" and "dtype".
 * \\param shapes of inputs (arguments and auxiliary states), complete or not
 * \\param types MXNet's type codes of inputs. If empty, no types are inferred, since some operators
 * refuse inputs of unknown type
 * \\throw dmlc::Error at the first contradiction, or if a name is no input of the graph
 */
nnvm::Graph InferGraph(nnvm::Graph graph, const ShapesByName& shapes, const TypesByName& types);

/*! \brief InferGraph for types alone. */
nnvm::Graph InferGraphTypes(nnvm::Graph graph, const TypesByName& types);

/*! \brief MXNet's storage type of each output of a symbol, such as kRowSparseStorage, on CPUs. */
std::vector<int> InferOutputStorage(SymbolHandle symbol);

/*!
 * \brief Infer the output shapes of one operator. Return nothing if it has no inference function,
 * or if that needs attributes of another operator.
 * \\throw dmlc::Error if attributes or shapes contradict each other
 */
std::optional<std::vector<MaybeShape>> InferOperator(
    const std::string& op, const std::unordered_map<std::string, std::string>& attrs,
    const std::vector<MaybeShape>& inputs);

}  // namespace tofu::nnvm_layer
