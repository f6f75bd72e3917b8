/*!
 * \file greedy.h
 * \brief The greedy heuristic of Spartan (section 7.3 of the paper): the largest tensor first, then
 * its operators.
 *
 * Tensor classes in the order of their sizes; each takes the layout that costs least where every
 * operator around it that is still free answers as is best, given the layouts known so far. The
 * operators around it are fixed then, each to its cheapest choice, and nothing is taken back.
 * Linear in the incidences.
 */
#ifndef TOFU_CORE_SEARCH_GREEDY_H_
#define TOFU_CORE_SEARCH_GREEDY_H_

#include "core/graph/graph.h"
#include "core/search/recursive.h"
#include "core/search/variables.h"

namespace tofu {

/*! \brief A plan by the heuristic: the values of a variable are its whole sequences of choices.
 * \throws std::invalid_argument for hints that cannot be met, std::runtime_error where an operator
 * that writes in place is left no choice. */
SearchResult SearchGreedy(const Graph& graph, const WorkerGrid& grid, const Hints& hints);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_GREEDY_H_
