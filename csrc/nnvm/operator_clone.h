/*!
 * \file operator_clone.h
 * \brief Copies of operators that take their output shapes and types from the node.
 *
 * MXNet infers the outputs of most backward operators from the inputs of their forward node. A
 * worker whose backward part is split otherwise than its forward part would silently get wrong
 * shapes.
 */
#ifndef TOFU_NNVM_OPERATOR_CLONE_H_
#define TOFU_NNVM_OPERATOR_CLONE_H_

#include <string>
#include <vector>

#include "nnvm/inference.h"
#include "nnvm/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Does a copy of this operator need its shapes on the node?
 *
 * Backward operators do, operators without inference, and operators without inputs such as _zeros,
 * whose shape MXNet infers from their readers.
 */
bool NeedsClone(const nnvm::Node& node);

/*!
 * \brief Does the clone run MXNet's plain kernel in place of MKLDNN's, which cannot run on parts?
 *
 * Pooling's gradient reads a workspace of one byte per cell, packed into the first quarter of an
 * int32 tensor, which cannot be cut into regions; the plain kernel reads data and output instead.
 * Deconvolution's gradient refuses to run ("could not execute a primitive") outside the node that
 * MXNet made for it.
 */
bool NeedsPlainKernel(const nnvm::Op* op);

/*! \brief The clone of an operator, registered as "_tofu_clone_" + name when first asked for. */
const nnvm::Op* CloneOperator(const nnvm::Op* op);

/*! \brief The operator that a clone was made of; any other operator itself. */
const nnvm::Op* OriginalOperator(const nnvm::Op* op);

/*! \brief Write the outputs' shapes and type codes where a clone's inference reads them. */
void SetCloneOutputs(const std::vector<Extents>& shapes, const std::vector<int>& types,
                     nnvm::NodeAttrs* attrs);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_OPERATOR_CLONE_H_
