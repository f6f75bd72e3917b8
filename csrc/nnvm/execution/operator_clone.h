/*!
 * \file operator_clone.h
 * \brief Copies of operators with different attributes where the originals would be wrong or slow
 * on shards.
 */
#ifndef TOFU_NNVM_EXECUTION_OPERATOR_CLONE_H_
#define TOFU_NNVM_EXECUTION_OPERATOR_CLONE_H_

#include <string>
#include <vector>

#include "nnvm/base/mxnet_api.h"
#include "nnvm/graph/inference.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Return true if the clone reads the shapes and types of its outputs from the node.
 *
 * This applies to backward operators: MXNet infers their outputs from the forward node's inputs,
 * which may be split differently, so a worker would silently get wrong shapes. It also applies to
 * operators without inference, and to operators without inputs, such as _zeros, whose shape MXNet
 * infers from their readers.
 */
bool NeedsShapes(const nnvm::Op* op);

/*!
 * \brief Return true if the clone runs MXNet's plain kernel instead of oneDNN's, which cannot run
 * on shards.
 *
 * Pooling's gradient reads a workspace of one byte per element, packed into the first quarter of an
 * int32 tensor, which cannot be cut into regions. The plain kernel reads data and output instead.
 * Deconvolution's gradient fails ("could not execute a primitive") outside the node that MXNet made
 * for it. In three dimensions there is no plain kernel; see deconvolution.h.
 */
bool NeedsPlainKernel(const nnvm::Op* op);

/*!
 * \brief Return true if oneDNN chooses the layout of the operator's outputs: blocks of channels.
 *
 * Each reader that is no operator of oneDNN's would first copy the whole array to the plain layout.
 * The clone returns plain arrays, except for a first output whose layout is free (layout_flow.h).
 */
bool ChoosesLayout(const nnvm::Op* op);

/*! \brief Let oneDNN choose the layout of a clone's first output. */
void LetChooseLayout(nnvm::NodeAttrs* attrs);

/*! \brief Return true if copies of the operator's nodes use its clone. */
bool NeedsClone(const nnvm::Op* op);

/*! \brief Return the clone of an operator, registered as "_tofu_clone_" + name on first use. */
const nnvm::Op* CloneOperator(const nnvm::Op* op);

/*! \brief Return the original of a clone, or the operator itself. */
const nnvm::Op* OriginalOperator(const nnvm::Op* op);

/*! \brief List inputs to which a node's kernel writes new values that stay, although MXNet does not
 * declare it: a fixed gamma of BatchNorm becomes ones. */
std::vector<uint32_t> ListSetInputs(const nnvm::NodeAttrs& attrs);

/*! \brief List inputs that a node's kernel uses as scratch memory, although MXNet does not declare
 * it. On one device they usually have no other readers. */
std::vector<uint32_t> ListSpoiledInputs(const nnvm::NodeAttrs& attrs);

/*! \brief Write the outputs' shapes and type codes to attributes, which the inference of clones
 * reads. */
void SetCloneOutputs(const std::vector<Extents>& shapes, const std::vector<int>& types,
                     nnvm::NodeAttrs* attrs);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_OPERATOR_CLONE_H_
