/*!
 * \file sharing.h
 * \brief Search for reads that share their fetches, for the cost model and the emission of
 * programs.
 *
 * Operators of one group, in one phase and with equal choices, fetch a region once on each worker.
 * A group is a set of operators: equal time steps of a recurrence, or parts of one operator. If the
 * plan keeps a tensor (Assignment::kept), all its readers share fetches. If the plan rereads a
 * tensor (Assignment::reread), no readers share them.
 *
 * If the graph shares regions (Graph::ShareRegions), a fetch is one value for all workers. All
 * reads of one phase share it if their regions are equal on every worker, in any group and with any
 * choice. Updates, which read at the end of the step, share nothing, nor do readers of tensors that
 * are written in place.
 */
#pragma once

#include <cstddef>
#include <vector>

#include "core/base/numbering.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

struct Assignment;

struct Sharers {
  std::vector<std::vector<int>> of_read;  // the number of each read, by operator and input

  /*! \brief Return a number that is equal for reads of a tensor that share fetches. */
  int Of(int op, size_t input) const { return of_read[op][input]; }
};

/*! \brief Find the reads that share fetches for the choices of a plan. */
Sharers FindSharers(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*!
 * \brief Find the reads that share fetches in every plan, because their operators are in one group
 * and must be split alike. If the graph shares regions, equal accesses of such operators share,
 * too.
 *
 * Reads that share only by coincidence are counted separately, so costs are upper bounds.
 */
Sharers FindBoundSharers(const Graph& graph);

/*! \brief Return true if operators of one group may share fetches in some plans, but not in all. */
bool MayShareByChance(const Graph& graph);

/*! \brief Return, for each tensor, true if an operator writes it in place. */
std::vector<char> FindHeldTensors(const Graph& graph);

/*! \brief Numbers the regions that reads need on all workers. Reads of a tensor that can share
 * fetches have equal numbers. Keeps references to `graph` and `grid`. */
class RegionNumbers {
 public:
  RegionNumbers(const Graph& graph, const WorkerGrid& grid) : graph_(graph), grid_(grid) {}

  int Of(int op, const Input& input, const std::vector<int>& choice);

 private:
  const Graph& graph_;
  const WorkerGrid& grid_;
  Numbering accesses_;          // by access and choice
  std::vector<int> of_access_;  // by number of the access
  Numbering regions_;
};

}  // namespace tofu
