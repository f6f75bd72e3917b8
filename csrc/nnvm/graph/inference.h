/*!
 * \file inference.h
 * \brief Shapes and types by MXNet's own inference.
 */
#ifndef TOFU_NNVM_GRAPH_INFERENCE_H_
#define TOFU_NNVM_GRAPH_INFERENCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief Extents; one that is not known is -1 (0 and less as they come in). */
using Extents = std::vector<int64_t>;

/*! \brief A shape of which maybe nothing is known, not even the number of dimensions. */
struct MaybeShape {
  bool has_rank = false;
  Extents extents;
};

using ShapesByName = std::map<std::string, Extents>;
using TypesByName = std::map<std::string, int>;

/*! \brief Names of MXNet's node attributes that inference reads from variables. */
extern const char kShapeAttribute[];
extern const char kTypeAttribute[];

mxnet::TShape ToShape(const Extents& extents);
MaybeShape FromShape(const mxnet::TShape& shape);

/*!
 * \brief Infer the graph attributes "shape" and "dtype".
 * \param shapes of inputs (arguments and auxiliary states), complete or not
 * \param types MXNet's type codes of inputs; where none is given, no type is inferred (some
 * operators refuse inputs of unknown type)
 * \throw dmlc::Error at the first contradiction, or where a name is no input of the graph
 */
nnvm::Graph InferGraph(nnvm::Graph graph, const ShapesByName& shapes, const TypesByName& types);

/*! \brief InferGraph for types alone. */
nnvm::Graph InferGraphTypes(nnvm::Graph graph, const TypesByName& types);

/*! \brief What InferOperator found out. */
struct OperatorShapes {
  bool available = false;  // false: the operator has no inference, or lacks the attributes for it
  std::vector<MaybeShape> outputs;
};

/*!
 * \brief Output shapes of one operator by its own inference function.
 * \throw dmlc::Error where attributes or shapes contradict each other
 */
OperatorShapes InferOperator(const std::string& op,
                             const std::unordered_map<std::string, std::string>& attrs,
                             const std::vector<MaybeShape>& inputs);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_GRAPH_INFERENCE_H_
