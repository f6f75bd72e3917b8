/*!
 * \file check_fetches.h
 * \brief Checks of the fetches of an execution graph.
 */
#pragma once

#include <string>
#include <vector>

#include "nnvm/memory/memory_plan.h"

namespace tofu::nnvm_layer {

/*!
 * \brief List violations of the rules of fetches, one sentence each.
 *
 * The pieces of a fetch are boxes inside its region, and no element is in two pieces. Every node
 * belongs to a worker, and edges between workers enter fetches. The inference of shapes already
 * checks that sources are inside their entries.
 */
std::vector<std::string> FindFetchProblems(const PlannedGraph& planned);

/*! \brief Count the bytes that fetches read from other workers in one run. */
int64_t CountRemoteBytes(const PlannedGraph& planned);

}  // namespace tofu::nnvm_layer
