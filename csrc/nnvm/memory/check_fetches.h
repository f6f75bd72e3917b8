/*!
 * \file check_fetches.h
 * \brief Checks of the fetches of an execution graph.
 */
#ifndef TOFU_NNVM_MEMORY_CHECK_FETCHES_H_
#define TOFU_NNVM_MEMORY_CHECK_FETCHES_H_

#include <string>
#include <vector>

#include "nnvm/memory/memory_plan.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief List violated rules of fetches, one sentence each.
 *
 * Pieces are boxes inside their region, and no element is in two of them. Every node belongs to a
 * worker, and edges between workers enter fetches. Inference already checks that sources are inside
 * their entries.
 */
std::vector<std::string> FindFetchProblems(const PlannedGraph& planned);

/*! \brief Bytes that the fetches of one run read from other workers. */
int64_t CountRemoteBytes(const PlannedGraph& planned);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_CHECK_FETCHES_H_
