/*!
 * \file check_fetches.h
 * \brief Do the fetches of an execution graph read what there is, and write each cell once?
 */
#ifndef TOFU_NNVM_MEMORY_CHECK_FETCHES_H_
#define TOFU_NNVM_MEMORY_CHECK_FETCHES_H_

#include <string>
#include <vector>

#include "nnvm/memory/memory_plan.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief The rules of fetches that a graph breaks, a sentence each.
 *
 * Pieces are boxes inside their region, and no cell is in two of them; every node belongs to a
 * worker, and workers meet in fetches alone. Sources outside of the entries that they are read from
 * are refused by every fetch when shapes are inferred. Cells of no piece are filled.
 */
std::vector<std::string> FindFetchProblems(const PlannedGraph& planned);

/*! \brief Bytes that one run of the graph reads from other workers, by its fetches. */
int64_t CountRemoteBytes(const PlannedGraph& planned);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_CHECK_FETCHES_H_
