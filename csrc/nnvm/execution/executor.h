/*!
 * \file executor.h
 * \brief Execution of a bound graph in parts: the two phases of a training step.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*!
 * \brief Issue the nodes [begin, end) of a bound graph, in the topological order of its symbol.
 *
 * Returns before the nodes have run. The engine orders nodes by the memory that they read and
 * write, so a caller may write arguments between two parts.
 * \\param end -1 for all remaining nodes
 */
void PartialForward(ObjectHandle executor, bool is_train, int64_t begin, int64_t end);

/*!
 * \brief Run adjacent nodes of one worker as one operation of the engine, except fetches.
 *
 * An operation blocks writes to all its inputs until it is done. A fetch reads memory of other
 * workers, so a fetch that is joined with later nodes would block these workers longer.
 *
 * MXNet itself joins nodes only in graphs on a single device. Its settings apply:
 * MXNET_EXEC_BULK_EXEC_TRAIN=0 turns it off, and MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN limits the
 * nodes of an operation.
 * \\param symbol the symbol from which the executor was bound
 */
void BulkNodes(ObjectHandle executor, SymbolHandle symbol);

/*! \brief Return the number of nodes, in execution order, up to the last one that the first
 * `num_outputs` outputs of the symbol need. */
int64_t FindBoundary(SymbolHandle symbol, int64_t num_outputs);

/*!
 * \brief Make later uses of the arrays `written` wait for the operators that compute `results`.
 * Returns at once.
 *
 * This is for arrays that the operators change in place, since MXNet's executors do not tell the
 * engine about such changes.
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

/*! \brief Wait for pending writes to an array and return the number of all writes. */
int64_t CountWrites(ObjectHandle array);

/*! \brief Wait for pending writes to an array and return a digest of its content, or 0 if it is not
 * in host memory. Unlike CountWrites, a digest reveals writes through pointers. */
std::uint64_t DigestArray(ObjectHandle array);

}  // namespace tofu::nnvm_layer
