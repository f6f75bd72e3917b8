/*!
 * \file operator_clone.h
 * \brief Copies of operators that differ from their originals where those would be wrong, or slow,
 * on parts of tensors.
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
 * \brief Does the clone take the shapes and types of its outputs from the node?
 *
 * Those of backward operators do: MXNet infers them from the inputs of the forward node, which may
 * be split otherwise, so that a worker would silently get wrong shapes. So do those of operators
 * without inference, and without inputs such as _zeros, whose shape MXNet infers from its readers.
 */
bool NeedsShapes(const nnvm::Op* op);

/*!
 * \brief Does the clone run MXNet's plain kernel in place of MKLDNN's, which cannot run on parts?
 *
 * Pooling's gradient reads a workspace of one byte per cell, packed into the first quarter of an
 * int32 tensor, which cannot be cut into regions; the plain kernel reads data and output instead.
 * Deconvolution's gradient refuses to run ("could not execute a primitive") outside the node that
 * MXNet made for it; of three dimensions there is no plain kernel, but see deconvolution.h.
 */
bool NeedsPlainKernel(const nnvm::Op* op);

/*!
 * \brief Does oneDNN lay the operator's outputs out as it likes, in blocks of channels?
 *
 * Whoever is no operator of oneDNN's then makes a plain copy of the whole array first, each reader
 * its own. The clone hands out plain arrays, but for a first output whose layout it may choose
 * (layout_flow.h).
 */
bool ChoosesLayout(const nnvm::Op* op);

/*! \brief Leaves the layout of the first output of a clone to oneDNN. */
void LetChooseLayout(nnvm::NodeAttrs* attrs);

/*! \brief Is the copy of a node of this operator a node of its clone, for one of these reasons? */
bool NeedsClone(const nnvm::Op* op);

/*! \brief The clone of an operator, registered as "_tofu_clone_" + name when first asked for. */
const nnvm::Op* CloneOperator(const nnvm::Op* op);

/*! \brief The operator that a clone was made of; any other operator itself. */
const nnvm::Op* OriginalOperator(const nnvm::Op* op);

/*! \brief Which inputs the kernel of a node gives other numbers that are to stay, of which MXNet
 * says nothing: the gamma of a BatchNorm that is fixed becomes ones. */
std::vector<uint32_t> ListSetInputs(const nnvm::NodeAttrs& attrs);

/*!
 * \brief Which inputs the kernel of a node works on as on memory of its own, so that their cells
 * are lost. MXNet says nothing of it: on one device nobody else reads them, as a rule.
 */
std::vector<uint32_t> ListSpoiledInputs(const nnvm::NodeAttrs& attrs);

/*! \brief Write the outputs' shapes and type codes where the inference of clones reads them whose
 * operators need it. */
void SetCloneOutputs(const std::vector<Extents>& shapes, const std::vector<int>& types,
                     nnvm::NodeAttrs* attrs);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_OPERATOR_CLONE_H_
