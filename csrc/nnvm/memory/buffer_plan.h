/*!
 * \file buffer_plan.h
 * \brief Buffers for the outputs of nodes that run in a given order.
 *
 * The same function places the buffers of an execution graph (pack_memory.h) and those of an
 * outline (outline_memory.h), so the memory predicted for a plan is the memory that is allocated.
 */
#pragma once

#include <cstdint>
#include <vector>

namespace tofu::nnvm_layer {

// Marks in place of an input: nobody reads the output; the output is not computed in place.
constexpr int kUnread = -2;
constexpr int kOwnBuffer = -1;

/*! \brief Permission to write an output over an input. */
struct InPlaceOption {
  uint32_t input = 0;
  uint32_t output = 0;
  bool is_identity = false;  // the output equals the input, which others may still read
};

/*! \brief Use of memory by a kernel. */
struct KernelMemory {
  std::vector<InPlaceOption> in_place;
  std::vector<uint32_t> ignored;  // inputs of which it reads only the shape
  bool is_sum = false;            // MXNet's sum of gradients, _grad_add
};

/*! \brief An output of a node. */
struct MemoryEntry {
  int64_t bytes = 0;
  int64_t elements = 0;
  int item_bytes = 0;
  bool is_placed = true;      // false for variables, and for outputs with memory of their own
  bool is_requested = false;  // see marked_outputs.h
  bool is_kept = false;
};

/*! \brief Nodes in the order in which they run, and the entries that they write and read. */
struct MemoryGraph {
  std::vector<const KernelMemory*> kernels;  // by node; null for a variable
  std::vector<int> devices;                  // by node
  std::vector<uint32_t> first_entry = {0};   // by node, and one more
  std::vector<uint32_t> first_read = {0};    // by node, and one more
  std::vector<uint32_t> reads;               // entries
  std::vector<MemoryEntry> entries;
  std::vector<uint32_t> outputs;  // entries that outlive the step

  uint32_t num_nodes() const { return static_cast<uint32_t>(kernels.size()); }

  /*! \brief Finish a node, whose entries and reads have been appended. */
  void EndNode(const KernelMemory* kernel, int device) {
    kernels.push_back(kernel);
    devices.push_back(device);
    first_entry.push_back(static_cast<uint32_t>(entries.size()));
    first_read.push_back(static_cast<uint32_t>(reads.size()));
  }
};

struct BufferPlan {
  std::vector<int> in_place;          // by entry: the input whose memory it takes, or a mark
  std::vector<int> buffers;           // by entry; negative without one
  std::vector<int64_t> buffer_bytes;  // by buffer
  std::vector<int> buffer_devices;    // by buffer
};

/*!
 * \brief Place all entries.
 *
 * Outputs are computed in place by the rules of MXNet's planner: over an input without further
 * readers, or by an operator that changes nothing. But MXNet places buffers node by node, and
 * enlarges free buffers. Shards and fetched regions have many sizes, so a quarter of that memory
 * would be unused. This function knows all lifetimes: it places the largest entries first, and
 * smaller ones into the gaps.
 *
 * The second of two gradients is added directly to the first if the first has no other reader. It
 * gets a buffer without bytes, because MXNet moves it to the buffer of the sum.
 */
BufferPlan PlanBuffers(const MemoryGraph& graph);

}  // namespace tofu::nnvm_layer
