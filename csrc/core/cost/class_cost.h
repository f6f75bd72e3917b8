/*!
 * \file class_cost.h
 * \brief Lower bounds on the cost of an incidence, for all orders of its choices at once.
 *
 * Two sequences of choices form one *class* if they split the same dimensions equally often among
 * rounds of equal factor. For example, 64 workers have 729 layouts of a matrix, in 28 classes. In a
 * class, regions and shards have the same sizes, but other workers hold them. A worker lacks the
 * fewest bytes if its region and its shard overlap as much as their sizes allow. So the sizes give
 * a lower bound for all pairs of sequences from two classes.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/cost/cost.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief Return a number for each round, its *kind*. Rounds with equal factors have one kind. */
std::vector<int> NumberRounds(const WorkerGrid& grid);

/*! \brief Return numbers that are equal for sequences of one class. `kinds` is by round. */
std::vector<int> DescribeClass(const std::vector<int>& kinds, const std::vector<int>& choices);

/*! \brief Return a table like TabulateIncidence, on a grid of one level (WorkerGrid::OneLevel). An
 * entry is a lower bound of IncidenceBytes for all choices and layouts of two classes. */
std::vector<int64_t> BoundIncidence(const Graph& graph, const Incidence& incidence,
                                    const WorkerGrid& grid,
                                    const std::vector<std::vector<int>>& choices,
                                    const std::vector<std::vector<int>>& layouts);

/*! \brief Return a key that is equal for reads that have equal regions for some sequences of their
 * classes. It has the sizes of the regions, and for each dimension the kinds of the rounds that
 * split it. */
std::vector<int64_t> DescribeSizes(const Graph& graph, const WorkerGrid& grid, int op,
                                   const Input& input, const std::vector<int>& choice);

}  // namespace tofu
