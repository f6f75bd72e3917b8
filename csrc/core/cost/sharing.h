/*!
 * \file sharing.h
 * \brief Which operators share their fetches.
 *
 * A region that two operators of one worker need is fetched once where they are of one group, run
 * in one phase and take the same choice. The group is part of the graph (the time steps of a
 * recurrence, the parts of one operator) and the choices are the plan, so the plan alone says which
 * fetches are shared: the cost and the emission both ask here and decide nothing. Of tensors that
 * the plan keeps (Assignment::kept) all readers share, of those that it has read again
 * (Assignment::reread) none.
 */
#ifndef TOFU_CORE_COST_SHARING_H_
#define TOFU_CORE_COST_SHARING_H_

#include <vector>

#include "core/graph/graph.h"

namespace tofu {

struct Sharers {
  std::vector<int> first;    // by operator: the first of those that it shares fetches with
  std::vector<char> reread;  // by tensor, or empty: its readers share nothing

  /*! \brief The first operator of those that share the fetches of a tensor with `op`. */
  int Of(int op, int tensor) const {
    return !reread.empty() && reread[tensor] != 0 ? op : first[op];
  }
};

/*! \brief Who shares at these choices. */
Sharers FindSharers(const Graph& graph, const std::vector<std::vector<int>>& choices,
                    std::vector<char> reread = {});

/*!
 * \brief The same for a search, which knows no choices yet: operators of a group share where they
 * are bound to one choice.
 *
 * Those that merely come out alike count as apart, so the search's bytes are an upper bound then.
 */
Sharers FindBoundSharers(const Graph& graph);

}  // namespace tofu

#endif  // TOFU_CORE_COST_SHARING_H_
