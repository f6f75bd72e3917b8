/*!
 * \file sharing.h
 * \brief Which reads share their fetches.
 *
 * A region that two operators of one worker need is fetched once where they are of one group, run
 * in one phase and take the same choice. The group is part of the graph (the time steps of a
 * recurrence, the parts of one operator) and the choices are the plan, so the plan alone says which
 * fetches are shared: the cost and the emission both ask here and decide nothing. Of tensors that
 * the plan keeps (Assignment::kept) all readers share, of those that it has read again
 * (Assignment::reread) none.
 *
 * Where the graph shares regions (Graph::ShareRegions), a fetch is one for all workers, a value of
 * the program: all reads of one phase share it whose regions are equal on every worker, whatever
 * their groups and choices. Updates read at the end of the step and share with nobody, and neither
 * do those who read what some operator writes in place.
 */
#ifndef TOFU_CORE_COST_SHARING_H_
#define TOFU_CORE_COST_SHARING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/numbering.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

struct Assignment;

struct Sharers {
  std::vector<std::vector<int>> of_read;  // by operator and input

  /*! \brief A number that is equal for those reads of a tensor that share its fetches. */
  int Of(int op, size_t input) const { return of_read[op][input]; }
};

/*! \brief Who shares at these choices. */
Sharers FindSharers(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*!
 * \brief The same for a search, which knows no choices yet: operators of a group share where they
 * are bound to one choice, and where the graph shares regions, all equal accesses of such operators
 * do.
 *
 * Those that merely come out alike count as apart, so these bytes are an upper bound then.
 */
Sharers FindBoundSharers(const Graph& graph);

/*! \brief Whether operators of one group could share by choosing alike though nothing binds them
 * to. */
bool MayShareByChance(const Graph& graph);

/*! \brief By tensor: whether some operator writes it in place. */
std::vector<char> FindHeldTensors(const Graph& graph);

/*! \brief Numbers what all workers together ask for: equal for the reads of a tensor that can share
 * their fetches. Neither `graph` nor `grid` is copied. */
class RegionNumbers {
 public:
  RegionNumbers(const Graph& graph, const WorkerGrid& grid) : graph_(graph), grid_(grid) {}

  int Of(int op, const Input& input, const std::vector<int>& choice);

 private:
  const Graph& graph_;
  const WorkerGrid& grid_;
  Numbering accesses_;          // equal ones ask for the same at one choice
  std::vector<int> of_access_;  // by their numbers
  Numbering regions_;
};

}  // namespace tofu

#endif  // TOFU_CORE_COST_SHARING_H_
