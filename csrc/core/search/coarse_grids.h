/*!
 * \file coarse_grids.h
 * \brief Plans for many workers, found on grids with fewer and larger rounds.
 *
 * A *coarse grid* joins neighbouring rounds of a grid: 64 workers in six rounds of 2 become 8 x 8
 * or 16 x 4. Its plans split the same dimension in all rounds that are joined. There are few of
 * them, so a search is fast for any number of workers. Among them are data parallelism, and tensor
 * and data parallelism by level of the interconnect. With free replication, they include sharded
 * optimizers and parameters, too (ZeRO, HSDP).
 */
#pragma once

#include <optional>
#include <vector>

#include "core/cost/cost.h"
#include "core/graph/graph.h"
#include "core/search/recursive.h"
#include "core/search/variables.h"

namespace tofu {

/*! \brief For each round of a coarse grid, the number of rounds that it joins. */
using JoinedRounds = std::vector<int>;

/*! \brief Return all ways to join rounds to at most `most_rounds` rounds. Rounds with different
 * prices or latencies are not joined. If factors are equal, orders that only permute rounds of
 * equal price are left out. */
std::vector<JoinedRounds> ListCoarseGrids(const WorkerGrid& grid, int most_rounds);

WorkerGrid JoinRounds(const WorkerGrid& grid, const JoinedRounds& joined);

/*! \brief Return the hints for a coarse grid, or nothing if a hint differs between joined rounds.
 */
std::optional<Hints> JoinHints(const Hints& hints, const JoinedRounds& joined);

/*!
 * \brief Return a plan for the grid of `variables` that follows the plan of a coarse grid.
 *
 * If the coarse plan replicates a tensor that the grid can split, or does not meet one of the
 * `hints`, the recursive search chooses again.
 * \throws like SearchRecursive
 */
SearchResult RefinePlan(const SearchVariables& variables, const Hints& hints,
                        const Assignment& coarse, const JoinedRounds& joined);

}  // namespace tofu
