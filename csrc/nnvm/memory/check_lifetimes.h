/*!
 * \file check_lifetimes.h
 * \brief Does every node find in memory what it is to read, whatever order the engine chooses?
 */
#ifndef TOFU_NNVM_MEMORY_CHECK_LIFETIMES_H_
#define TOFU_NNVM_MEMORY_CHECK_LIFETIMES_H_

#include <string>
#include <vector>

#include "nnvm/memory/engine_view.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief The rules of lifetimes that a graph breaks, a sentence each.
 *
 * 1. A buffer holds the whole of an entry wherever the entry is read: it is written before, and
 *    what is written or added into the buffer after that is written after the last read. Variables
 *    and outputs are read once more at the end.
 * 2. A kernel writes over an input that it reads only where it may compute in place, adds to no
 *    input that it reads, and has a buffer of its own for each output.
 * 3. Buffers belong to one worker.
 * 4. Where a node changes what it reads in place, the engine keeps it and others that read the
 *    same apart. It takes such a change for a read, so something else has to. Two nodes that change
 * a variable are of one worker, and left to the engine as on one device.
 *
 * The engine orders whatever uses a buffer as it was issued, reads among each other aside, so that
 * with rules 1 to 3 the order of issue stands for all orders. Takes time linear in the nodes,
 * inputs and outputs; for rule 4, once more for every 64 nodes that use variables which others
 * change.
 */
std::vector<std::string> FindLifetimeProblems(const EngineView& view);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_CHECK_LIFETIMES_H_
