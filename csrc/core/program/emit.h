/*!
 * \file emit.h
 * \brief Emission of the execution program of a plan (section 6 of the paper): operator copies and
 * fetches in the order of execution.
 *
 * - Each operator has one copy per worker. The copies of an operator are adjacent, in the order of
 * the original graph, so each worker reuses buffers as one device does, and a buffer is free once
 * its last reader has run. Between two fetches of a phase, the copies of one worker are adjacent,
 * so that they can run at once.
 * - An input whose region is exactly the worker's shard is the shard. Any other is a fetch just
 * before its first use, shared by the operators of one group, phase and choice. An addend on a
 * worker that must not add it is a fetch of zeros.
 * - Along an operator's fetched axes, each output is a fetch instead of a copy. It reads the
 * inputs' shards, or fetched regions if these have other uses.
 * - A tensor that is read is brought into its layout right after it is produced, which frees
 * partial results early. If the producer's entry is the shard already, nothing is emitted.
 * - Partial results of a large replicated tensor are reduced in two stages: every worker sums one
 * part, then gathers the others.
 */
#ifndef TOFU_CORE_PROGRAM_EMIT_H_
#define TOFU_CORE_PROGRAM_EMIT_H_

#include <cstdint>
#include <vector>

#include "core/cost/cost.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"
#include "core/program/program.h"

namespace tofu {

/*! \brief A tensor to return, shard by shard. */
struct OutputRequest {
  int tensor = -1;
  bool has_layout = false;  // false: the tensor's own layout
  std::vector<int> layout;
};

/*!
 * \brief Emit the program of a plan for the operators of some phases. Updates, which follow a
 * tensor, are left out.
 * \\throws std::invalid_argument for a plan that does not fit the graph, for tensors that are read
 * but produced in another phase, and for in-place writes to regions other than the worker's shard
 */
Program EmitProgram(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
                    const std::vector<int>& phases, const std::vector<OutputRequest>& outputs);

/*! \brief Count bytes that worker `reader` reads from `owner`, at [reader * k + owner], from the
 * program's fetches. */
std::vector<int64_t> CountTraffic(const Graph& graph, const Program& program);

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_EMIT_H_
