/*!
 * \file part_arguments.cuh
 * \brief What kernels of the parts of lowered operators are given.
 */
#ifndef TOFU_CUDA_PART_ARGUMENTS_CUH_
#define TOFU_CUDA_PART_ARGUMENTS_CUH_

#include "positions.cuh"

namespace tofu {
namespace cuda {

constexpr int kPartThreads = 256;
constexpr int kMaxPartTensors = 12;
constexpr int kMaxPartOutputs = 3;

// MXNet's codes of what an output is asked for.
constexpr int kNothingAsked = 0;
constexpr int kAdditionAsked = 3;

/*! \brief Which cells along a dimension a window has; see nnvm/parts/pooling.cc. */
struct Window {
  Index kernel;
  Index stride;
  Index pad;
  Index begin;
  Index end;
  Index first;

  /*! \brief How many cells count in the window of a position; 1 where there are none. */
  TOFU_DEVICE Index CountCells(Index position) const {
    const Index start = (first + position) * stride - pad;
    const Index stop = start + kernel;
    const Index count = (stop < end ? stop : end) - (start > begin ? start : begin);
    return count > 1 ? count : 1;
  }
};

/*! \brief What SoftmaxOutput makes of a label; see nnvm/parts/softmax_output.cc. */
struct Labels {
  float scale;
  float smoothing;
  int ignored;
  int are_ignored;
  Index classes;
  Index first;  // class of a part

  /*! \brief What smoothing expects of each other class. */
  TOFU_DEVICE float SharePerClass() const {
    return smoothing == 0 ? 0 : smoothing / static_cast<float>(classes - 1);
  }
};

/*! \brief What the cells are that a thread takes at once: a few anywhere, or 16 bytes of neighbours
 * in memory, which are cells of one group, or of as many neighbouring groups. */
enum class Packing : int { kApart, kOfGroup, kOfGroups };

/*! \brief How the threads of a launch share groups and cells; launch_part.cc chooses. */
struct PartLayout {
  Packing packing;
  int lanes;                  // threads that share a group, a power of two
  int neighbours_are_groups;  // neighbouring threads take neighbouring groups, else cells of one
  int waits;                  // threads of a block wait for each other
  int merges;                 // the partial results are what is reduced
  Index shares;               // blocks that share the reduction of a group
  void* partials;             // their results, [group][share]; null where there is one share
};

/*! \brief Indices sorted by the row that they mean; see sort_positions.cuh. */
struct Sorting {
  Index* keys;    // row and number of each index
  Index* begins;  // of each row's keys, and of those of no row
  Index size;     // of the keys, a power of two
  Index span;     // of what is sorted by the next step
  Index stride;   // between keys that it compares
};

/*! \brief The argument of the kernels: the operator's tensors and attributes (lowered_operator.h).
 */
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

/*! \brief The type of element-wise arithmetic. */
template <typename T>
struct RealType {
  typedef typename SumType<T>::type type;
};

/*! \brief Element `i` of output `output`, as it is asked for. */
template <typename T, typename Value>
TOFU_DEVICE void StoreElement(const PartArguments& arguments, int output, Index i, Value value) {
  if (arguments.requests[output] == kNothingAsked) return;
  T& target = arguments.Output<T>(output)[i];
  if (arguments.requests[output] == kAdditionAsked) value = static_cast<Value>(target) + value;
  target = static_cast<T>(value);
}

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_PART_ARGUMENTS_CUH_
