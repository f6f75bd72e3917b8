/*!
 * \file engine_view.h
 * \brief A bound graph as MXNet's engine sees it: which memory every node reads and writes.
 */
#ifndef TOFU_NNVM_MEMORY_ENGINE_VIEW_H_
#define TOFU_NNVM_MEMORY_ENGINE_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nnvm/execution/execution_tables.h"
#include "nnvm/memory/memory_plan.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief What a kernel does with an input. */
enum class Access : int64_t {
  kShape = 0,   // reads no cell of it; the engine is told that it does
  kRead = 1,    // reads its cells
  kChange = 2,  // changes them where they are; the engine is told that it reads them
  kSpoil = 3,  // reads them, and leaves something else there; the engine is told that it reads them
};

/*! \brief An input and an output of a node, which may share memory. */
struct InPlacePair {
  int64_t node = 0;
  int64_t input = 0;
  int64_t output = 0;
  bool is_identity = false;  // the output is the input, so that others may go on reading that
};

/*!
 * \brief Plain numbers, in the order in which nodes are issued.
 *
 * The engine lets a node run once those issued before it have run that write what it reads or
 * writes, or read what it writes. It knows buffers, not entries.
 */
struct EngineView {
  std::vector<std::string> names;  // of nodes
  Column group;                    // by node: its worker
  Column is_variable;              // by node
  Column is_skipped;               // by node: a sum that the kernel of its second gradient has made
  Column first_entry;              // by node: the first of its outputs; one more at the end
  Column first_read;  // by node: the first of its inputs in `read`; one more at the end
  Column read;        // the entries that nodes read, node by node
  Column access;      // how: an Access for each
  Column buffer;      // by entry; equal numbers are the same memory
  Column is_added;    // by entry: added to what is in its buffer
  Column outputs;     // entries that are read after the graph has run
  std::vector<InPlacePair> in_place;  // what kernels may compute in place, node by node
};

EngineView ViewAsEngine(const PlannedGraph& planned);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_MEMORY_ENGINE_VIEW_H_
