/*!
 * \file coarsen.h
 * \brief Lossless coarsening of element-wise operators (after section 5.1 of the paper).
 *
 * The paper merges whole runs of element-wise operators, which can cost bytes: tensors inside the
 * run may be needed in two layouts. The rule here ties only tensors that nobody else looks at, so
 * that some optimal plan survives:
 *  - the single-use input of a unary element-wise operator is tied to its output;
 *  - the single-use inputs of one n-ary element-wise operator are tied to each other.
 */
#ifndef TOFU_CORE_GRAPH_COARSEN_H_
#define TOFU_CORE_GRAPH_COARSEN_H_

#include <vector>

#include "core/graph/graph.h"

namespace tofu {

/*! \brief Exactly one operator reads the tensor, none follows its layout, and it is not an output
 * of the graph. */
bool IsSingleUse(const Tensor& tensor);

/*!
 * \brief Ties tensors by the rule above for the listed element-wise operators; replicable tensors
 * stay free.
 * \return the number of ties made
 */
int Coarsen(Graph* graph, const std::vector<int>& elementwise_operators);

}  // namespace tofu

#endif  // TOFU_CORE_GRAPH_COARSEN_H_
