/*!
 * \file training_graph.h
 * \brief Forward and backward pass of a symbol as one graph (paper section 6).
 */
#ifndef TOFU_NNVM_GRAPH_TRAINING_GRAPH_H_
#define TOFU_NNVM_GRAPH_TRAINING_GRAPH_H_

#include <string>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief The gradient that comes in at output i is a variable of this name followed by i. */
extern const char kHeadGradientPrefix[];

/*!
 * \brief Differentiate a symbol with MXNet's own gradient pass, as its executor does.
 * \param symbol the forward graph; it is copied, and stays as it is
 * \param wrt arguments whose gradients are wanted
 * \return a graph whose outputs are the outputs of `symbol`, then one gradient per name of `wrt`.
 *   Its shapes do not follow from the forward ones alone: those of the head gradients have to be
 * given.
 * \throw dmlc::Error where a name is no argument of the symbol, or names two of them
 */
SymbolHandle BuildTrainingGraph(SymbolHandle symbol, const std::vector<std::string>& wrt);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_GRAPH_TRAINING_GRAPH_H_
