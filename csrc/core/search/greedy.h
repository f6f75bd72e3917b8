/*!
 * \file greedy.h
 * \brief The greedy heuristic of Spartan (section 7.3 of the paper).
 *
 * Tensor classes are visited by decreasing size. Each takes the cheapest layout, given the known
 * layouts, if every free operator around it answers as well as possible. Then these operators are
 * fixed, each to its cheapest choice. Nothing is revised. Linear in the incidences.
 */
#ifndef TOFU_CORE_SEARCH_GREEDY_H_
#define TOFU_CORE_SEARCH_GREEDY_H_

#include "core/graph/graph.h"
#include "core/search/recursive.h"
#include "core/search/variables.h"

namespace tofu {

/*!
 * \brief Find a plan by the heuristic. Values of a variable are whole sequences of choices.
 * \\throws std::invalid_argument for hints that cannot be met, std::runtime_error if no choice is
 * left to an operator that writes in place
 */
SearchResult SearchGreedy(const Graph& graph, const WorkerGrid& grid, const Hints& hints);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_GREEDY_H_
