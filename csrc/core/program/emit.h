/*!
 * \file emit.h
 * \brief Writes the execution program of a plan (section 6 of the paper): operator copies and
 * fetches, in the order of execution.
 *
 * - Each operator has one copy per worker, and the copies of one operator stand together, in the
 * order of the original graph. So each worker re-uses buffers as one device does, and what the
 * others fetch from it is free again as soon as the last of them has read it. Between two fetches
 * of one phase it is the copies of one worker that stand together, so that they can run at once.
 * - An input whose region is exactly the worker's shard is the shard; any other is a fetch, held
 * back to just before its first use, and shared by the operators of one group, phase and choice.
 * An addend on a worker that must not add it is a fetch of zeros.
 * - Along an operator's fetched axes no copy of it runs: each output is a fetch of its own, out of
 * the inputs' shards, or out of fetched regions of them where these have other uses.
 * - A tensor that somebody reads is brought into its layout right after it is produced, which frees
 * partial results early. Where the producer's entry is the shard already, nothing happens.
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

/*! \brief A tensor to hand out, shard by shard. */
struct OutputRequest {
  int tensor = -1;
  bool has_layout = false;  // false: in the tensor's own layout
  std::vector<int> layout;
};

/*!
 * \brief The program of a plan for the operators of the given phases. Updates (operators that
 * follow a tensor) are left out.
 * \throws std::invalid_argument for a plan that does not fit the graph, for tensors that are read
 * but produced in a phase that is left out, and for operators that write in place what their worker
 * does not hold.
 */
Program EmitProgram(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
                    const std::vector<int>& phases, const std::vector<OutputRequest>& outputs);

/*! \brief Bytes that worker `reader` reads from `owner`, at [reader * k + owner]: counted from the
 * program's fetches alone. */
std::vector<int64_t> CountTraffic(const Graph& graph, const Program& program);

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_EMIT_H_
