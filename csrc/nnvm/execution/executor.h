/*!
 * \file executor.h
 * \brief Running a bound graph in parts (the two phases of a training step).
 */
#ifndef TOFU_NNVM_EXECUTION_EXECUTOR_H_
#define TOFU_NNVM_EXECUTION_EXECUTOR_H_

#include <cstdint>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Issue the nodes [begin, end) of a bound graph, in the topological order of its symbol.
 *
 * Returns before they have run. The engine orders them by what they read and write, so a caller may
 * write arguments between two parts.
 * \param end -1: to the last node
 */
void PartialForward(ObjectHandle executor, bool is_train, int64_t begin, int64_t end);

/*!
 * \brief Have neighbouring nodes of one worker run as one operation of the engine, but for fetches.
 *
 * An operation keeps others from writing what any of its nodes reads until all of them are done. A
 * fetch reads other workers' memory: together with what follows it, it would keep those waiting.
 *
 * MXNet does so itself, but only for graphs that lie on one device as a whole. Its settings hold
 * here too: MXNET_EXEC_BULK_EXEC_TRAIN=0 turns it off, MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN limits
 * the nodes of one operation.
 * \param symbol of which the executor was bound
 */
void BulkNodes(ObjectHandle executor, SymbolHandle symbol);

/*! \brief One past the last node that the first `num_outputs` outputs of the symbol need. */
int64_t FindBoundary(SymbolHandle symbol, int64_t num_outputs);

/*!
 * \brief Whoever uses one of `written` from now on waits for what has been issued to compute
 * `results`.
 *
 * MXNet's executors do not tell the engine which inputs their operators change in place. Returns at
 * once.
 */
void OrderAfter(const std::vector<ObjectHandle>& written, const std::vector<ObjectHandle>& results);

/*! \brief The memory behind an array. */
struct StorageInfo {
  int device_type = 0;
  int device_id = 0;
  std::uintptr_t address = 0;
  int64_t bytes = 0;
};

StorageInfo DescribeStorage(ObjectHandle array);

/*! \brief How many writes an array has seen, counted after those under way are done. */
int64_t CountWrites(ObjectHandle array);

/*!
 * \brief Tells apart what an array holds at different times, after the writes under way: writes
 * through pointers are not counted.
 *
 * 0 for an array that is not in the host's memory.
 */
std::uint64_t DigestArray(ObjectHandle array);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_EXECUTOR_H_
