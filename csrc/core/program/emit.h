/*!
 * \file emit.h
 * \brief Emission of the program of a plan (section 6 of the paper): copies of operators and
 * fetches in the order of execution.
 *
 *  - Each operator has one copy per worker. Operators are in the order of the original graph, so
 *    each worker reuses buffers as one device does, and a buffer is free once its last reader has
 *    run. Between two fetches of a phase, the copies of one worker are adjacent, so that they can
 *    run at once.
 *  - If the region of an input is exactly the worker's shard, the copy reads the shard. Otherwise a
 *    fetch just before the first use assembles the region. The operators of one group, phase and
 *    choice share it. A worker that must not add an addend fetches zeros instead.
 *  - If an operator is split along a fetched axis, a fetch assembles each output, and there is no
 *    copy. The fetch reads the inputs' shards, or fetched regions if these have other readers.
 *  - If a tensor is read, a fetch brings it into its layout right after it is computed, which frees
 *    partial results early. No fetch is needed if the output is the shard already.
 *  - Partial results of a large replicated tensor are reduced in two stages: every worker sums one
 *    part, and then gathers the other parts.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/cost/cost.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"
#include "core/program/outline.h"
#include "core/program/program.h"

namespace tofu {

/*! \brief Request to return a tensor, as one shard per worker. */
struct OutputRequest {
  int tensor = -1;
  bool has_layout = false;  // false if the tensor's layout in the plan is used
  std::vector<int> layout;
};

/*!
 * \brief Emit the program of a plan for the operators of some phases. Weight updates are left out.
 *
 * Only the fetches of `readers` have inputs and pieces. If there are no `readers`, all fetches do.
 * \throws std::invalid_argument for a plan that does not fit the graph, for tensors that are read
 * but produced in another phase, and for in-place writes to regions other than the worker's shard
 */
Program EmitProgram(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
                    const std::vector<int>& phases, const std::vector<OutputRequest>& outputs,
                    const std::vector<int>& readers);

/*!
 * \brief Emit the outlines of the workers (outline.h).
 *
 * This needs far less memory than the program, whose fetches have pieces for all pairs of workers.
 */
Outlines EmitOutlines(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
                      const std::vector<int>& phases, const std::vector<OutputRequest>& outputs);

}  // namespace tofu
