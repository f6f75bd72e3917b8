/*!
 * \file greedy.h
 * \brief The greedy heuristic of Spartan (section 7.3 of the paper).
 *
 * Tensors are visited by decreasing size. Each takes the layout that is cheapest with the layouts
 * so far, if all undecided operators around it take their best choices. These operators then take
 * these choices. No decision is revised. The time is linear in the incidences (cost.h).
 */
#pragma once

#include "core/graph/graph.h"
#include "core/search/recursive.h"
#include "core/search/variables.h"

namespace tofu {

/*!
 * \brief Find a plan by the heuristic, for all rounds at once.
 * \throws std::invalid_argument for hints that cannot be met, std::runtime_error if no choice is
 * left to an operator that writes in place
 */
SearchResult SearchGreedy(const Graph& graph, const WorkerGrid& grid, const Hints& hints);

}  // namespace tofu
