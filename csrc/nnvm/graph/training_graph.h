/*!
 * \file training_graph.h
 * \brief Forward and backward pass of a symbol as one graph (paper section 6).
 */
#pragma once

#include <string>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief The name of a head gradient's variable is this prefix and the output's number. */
extern const char kHeadGradientPrefix[];

/*!
 * \brief Differentiate a symbol with MXNet's gradient pass, as its executor does.
 * \\param symbol the forward graph, which is copied
 * \\param wrt arguments whose gradients are needed
 * \\return a graph with the outputs of `symbol`, then one gradient per name of `wrt`. To infer its
 * shapes, the shapes of head gradients are needed as well
 * \\throw dmlc::Error if a name is no argument of the symbol, or the name of two
 */
SymbolHandle BuildTrainingGraph(SymbolHandle symbol, const std::vector<std::string>& wrt);

}  // namespace tofu::nnvm_layer
