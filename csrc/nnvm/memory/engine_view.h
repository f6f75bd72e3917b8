/*!
 * \file engine_view.h
 * \brief A bound graph as MXNet's engine sees it: the memory that each node reads and writes.
 */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nnvm/memory/memory_plan.h"

namespace tofu::nnvm_layer {

/*! \brief Use of an input by a kernel. */
enum class Access : int64_t {
  kShape = 0,   // reads only the shape; the engine assumes a read
  kRead = 1,    // reads elements
  kChange = 2,  // changes elements in place; the engine assumes a read
  kSpoil = 3,   // reads and overwrites it; the engine assumes a read
};

using Column = std::vector<int64_t>;

/*!
 * \brief Nodes as columns of numbers, in the order of issue.
 *
 * The engine runs a node after all earlier nodes that write a buffer that the node reads or writes,
 * or that read a buffer that the node writes. It knows buffers, not entries.
 */
struct EngineView {
  std::vector<std::string> names;  // of nodes
  Column group;                    // by node: its worker
  Column is_variable;              // by node
  Column is_skipped;               // by node: a sum that the kernel of its second gradient computes
  Column first_entry;              // by node: its first output; one more at the end
  Column first_read;               // by node: its first input in `read`; one more at the end
  Column read;                     // entries that nodes read, node by node
  Column access;                   // by read: an Access
  Column buffer;                   // by entry: number of its memory
  Column is_added;                 // by entry: added to the content of its buffer
  Column outputs;                  // entries that are read after the run
  std::vector<std::vector<InPlaceOption>> in_place;  // by node
};

EngineView ViewAsEngine(const PlannedGraph& planned);

}  // namespace tofu::nnvm_layer
