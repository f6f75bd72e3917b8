/*!
 * \file sharing.h
 * \brief Reads that share their fetches.
 *
 * Operators of one group, in one phase and with equal choices fetch a region once per worker. The
 * group belongs to the graph (time steps of a recurrence, parts of one operator) and the choices to
 * the plan, so the plan determines what is shared. The cost model and the emission of programs both
 * ask here. All readers share the fetches of a tensor that the plan keeps (Assignment::kept); none
 * share those of a tensor that it rereads (Assignment::reread).
 *
 * If the graph shares regions (Graph::ShareRegions), a fetch is one value for all workers. All
 * reads of one phase share it if their regions are equal on every worker, in any group and with any
 * choice. Updates, which read at the end of the step, and readers of tensors that are written in
 * place share nothing.
 */
#ifndef TOFU_CORE_COST_SHARING_H_
#define TOFU_CORE_COST_SHARING_H_

#include <cstddef>
#include <vector>

#include "core/base/numbering.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

struct Assignment;

struct Sharers {
  std::vector<std::vector<int>> of_read;  // by operator and input

  /*! \brief Return a number that is equal for reads of a tensor that share fetches. */
  int Of(int op, size_t input) const { return of_read[op][input]; }
};

/*! \brief Sharing at given choices. */
Sharers FindSharers(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*!
 * \brief Sharing that holds for all choices of a search: operators of a group share if they are
 * bound to one choice. If the graph shares regions, equal accesses of such operators share, too.
 *
 * Reads that share only by coincidence count separately, so costs are upper bounds.
 */
Sharers FindBoundSharers(const Graph& graph);

/*! \brief Return true if operators of one group could share without being bound to one choice. */
bool MayShareByChance(const Graph& graph);

/*! \brief By tensor: true if an operator writes it in place. */
std::vector<char> FindHeldTensors(const Graph& graph);

/*! \brief Numbers the regions of all workers: equal for reads of a tensor that can share fetches.
 * Keeps references to `graph` and `grid`. */
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

#endif  // TOFU_CORE_COST_SHARING_H_
