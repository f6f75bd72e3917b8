/*!
 * \file part_arguments.cuh
 * \brief Arguments of the kernels of lowered operators' parts.
 */
#pragma once

#include "positions.cuh"

namespace tofu::cuda {

constexpr int kPartThreads = 256;
constexpr int kMaxPartTensors = 12;
constexpr int kMaxPartOutputs = 3;

// MXNet's codes of requests for an output: write nothing, or add to the output.
constexpr int kNothingRequested = 0;
constexpr int kAdditionRequested = 3;

/*! \brief The elements of a window along a dimension; see nnvm/parts/pooling.cc. */
struct Window {
  Index kernel;
  Index stride;
  Index pad;
  Index begin;
  Index end;
  Index first;

  /*! \brief Count the elements of the window at a position; 1 if there are none. */
  TOFU_DEVICE Index CountCells(Index position) const {
    const Index start = (first + position) * stride - pad;
    const Index stop = start + kernel;
    const Index count = (stop < end ? stop : end) - (start > begin ? start : begin);
    return count > 1 ? count : 1;
  }
};

/*! \brief Attributes of SoftmaxOutput's labels; see nnvm/parts/softmax_output.cc. */
struct Labels {
  float scale;
  float smoothing;
  int ignored;
  int are_ignored;
  Index classes;
  Index first;  // class of this part

  /*! \brief The target of each other class after smoothing. */
  TOFU_DEVICE float SharePerClass() const {
    return smoothing == 0 ? 0 : smoothing / static_cast<float>(classes - 1);
  }
};

/*! \brief The elements that a thread accesses at once: a few anywhere, or 16 bytes of neighbours
 * that are in one group or in adjacent groups. */
enum class Packing : int { kApart, kOfGroup, kOfGroups };

/*! \brief How the threads of a launch share groups and elements, set by launch_part.cc. */
struct PartLayout {
  Packing packing;
  int lanes;                  // threads per group, a power of two
  int neighbours_are_groups;  // adjacent threads take adjacent groups, else elements of one group

  int waits;       // threads of a block synchronise
  int merges;      // merges partial results
  Index shares;    // blocks per group in a reduction
  void* partials;  // partial results [group][share], or null for one share
};

/*! \brief Indices sorted by row; see sort_positions.cuh. */
struct Sorting {
  Index* keys;    // (row, number) of each index
  Index* begins;  // first key of each row, and of no row
  Index size;     // number of keys, a power of two
  Index span;     // sorted by the next step
  Index stride;   // distance of the compared keys
};

/*! \brief The argument of the kernels: tensors and attributes (lowered_operator.h). */
struct PartArguments {
  void* tensors[kMaxPartTensors];  // inputs, then outputs
  int num_inputs;
  int requests[kMaxPartOutputs];
  Index outer;
  Index extent;
  Index inner;
  double count;
  double eps;
  double momentum;
  double temperature;
  Window window;
  Labels labels;
  Positions positions;
  double valid_thresh;
  double on_value;
  double off_value;
  int fix_gamma;
  int is_train;
  PartLayout layout;
  Sorting sorting;

  template <typename T>
  TOFU_DEVICE const T* Input(int i) const {
    return static_cast<const T*>(tensors[i]);
  }
  template <typename T>
  TOFU_DEVICE T* Output(int i) const {
    return static_cast<T*>(tensors[num_inputs + i]);
  }
};

/*! \brief Write or add element `i` of output `output`, as requested. */
template <typename T, typename Value>
TOFU_DEVICE void StoreElement(const PartArguments& arguments, int output, Index i, Value value) {
  if (arguments.requests[output] == kNothingRequested) return;
  T& target = arguments.Output<T>(output)[i];
  if (arguments.requests[output] == kAdditionRequested) value = static_cast<Value>(target) + value;
  target = static_cast<T>(value);
}

}  // namespace tofu::cuda
