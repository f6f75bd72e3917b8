/*!
 * \file check_lifetimes.h
 * \brief Check that every node finds its inputs in memory in any order that the engine may choose.
 */
#pragma once

#include <string>
#include <vector>

#include "nnvm/memory/engine_view.h"

namespace tofu::nnvm_layer {

/*!
 * \brief List violations of the rules of lifetimes, one sentence each.
 *
 * An entry is a variable or an output of a node; several entries may use one buffer.
 *
 *  1. When an entry is read, its buffer holds the complete entry. No other write or addition to the
 *  buffer comes between the writing of the entry and its last read. Variables and outputs of the
 *  graph are read once more at the end.
 *  2. A kernel overwrites an input only if it may compute in place. It adds to no input that it
 *  reads, and has a separate buffer for each output.
 *  3. Each buffer belongs to one worker.
 *  4. If a node changes an input in place, its order with other readers of that input is fixed,
 *  although the engine takes the change for a read. Two nodes that change the same variable are on
 *  one worker, and the engine decides their order, as on one device.
 *
 * The engine runs all uses of a buffer in the order of issue, except that reads may change places.
 * So for rules 1 to 3, it is enough to check the order of issue. The check takes time linear in
 * nodes, inputs and outputs. Rule 4 takes this time once more for every 64 nodes that use changed
 * variables.
 */
std::vector<std::string> FindLifetimeProblems(const EngineView& view);

}  // namespace tofu::nnvm_layer
