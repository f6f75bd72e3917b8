/*!
 * \file operator_clone.h
 * \brief Clones of MXNet's operators, which infer shapes, choose kernels or lay out arrays in
 * another way, because the originals would be wrong or slow on shards.
 */
#pragma once

#include <vector>

#include "nnvm/base/mxnet_api.h"
#include "nnvm/graph/inference.h"

namespace tofu::nnvm_layer {

/*!
 * \brief Return true if the clone takes the shapes and types of its outputs from attributes of the
 * node (SetCloneOutputs) instead of inferring them.
 *
 * MXNet infers the outputs of a backward operator from the inputs of its forward node. The forward
 * node may be split differently, so a worker would silently get wrong shapes. Two more kinds of
 * operators have such clones: operators that have no inference function, and operators without
 * inputs, such as _zeros, whose shape MXNet infers from the operators that read the output.
 */
bool NeedsShapes(const nnvm::Op* op);

/*!
 * \brief Return true if the clone runs MXNet's plain kernel, since oneDNN's cannot run on shards.
 *
 * oneDNN's gradient of Pooling reads a workspace of one byte per element, packed into the first
 * quarter of an int32 tensor, which cannot be cut into regions. The plain kernel reads data and
 * output instead. oneDNN's gradient of Deconvolution fails ("could not execute a primitive")
 * outside the node that MXNet made for it. MXNet has no plain kernel in three dimensions; see
 * deconvolution.h.
 */
bool NeedsPlainKernel(const nnvm::Op* op);

/*!
 * \brief Return true if oneDNN chooses the layout of the operator's outputs: blocks of channels.
 *
 * A reader that is not an operator of oneDNN would first have to copy the whole array to the plain
 * layout. So the clone returns plain arrays, unless LetChooseLayout allows blocks (layout_flow.h).
 */
bool ChoosesLayout(const nnvm::Op* op);

/*! \brief Let oneDNN choose the layout of a clone's first output. */
void LetChooseLayout(nnvm::NodeAttrs* attrs);

/*! \brief Return true if execution graphs use a clone in place of the operator. */
bool NeedsClone(const nnvm::Op* op);

/*! \brief Return the clone of an operator, registered as "_tofu_clone_" + name on first use. */
const nnvm::Op* CloneOperator(const nnvm::Op* op);

/*! \brief Return the original of a clone, or the operator itself. */
const nnvm::Op* OriginalOperator(const nnvm::Op* op);

/*! \brief List inputs that a node's kernel changes for good, although MXNet does not declare it:
 * BatchNorm sets a fixed gamma to ones. */
std::vector<uint32_t> ListSetInputs(const nnvm::NodeAttrs& attrs);

/*! \brief List inputs that a node's kernel overwrites as scratch memory, although MXNet does not
 * declare it. On one device such an input usually has no other readers. */
std::vector<uint32_t> ListSpoiledInputs(const nnvm::NodeAttrs& attrs);

/*! \brief Write shapes and type codes of a node's outputs to its attributes, for NeedsShapes. */
void SetCloneOutputs(const std::vector<Extents>& shapes, const std::vector<int>& types,
                     nnvm::NodeAttrs* attrs);

}  // namespace tofu::nnvm_layer
