/*!
 * \file group_loops.cuh
 * \brief Loops of the parts of lowered operators: over the cells of a tensor, group by group.
 *
 * A tensor is [outer][extent][inner], as in nnvm/parts/dimension_view.h. A group is either a
 * position of the middle dimension, with all its cells, or a line along that dimension. A rule says
 * what is done with a group and with each of its cells; it is made of the arguments. Sums are taken
 * in double precision, in an order that depends on the shape alone.
 */
#ifndef TOFU_CUDA_GROUP_LOOPS_CUH_
#define TOFU_CUDA_GROUP_LOOPS_CUH_

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

/*! \brief The cells at one position of the dimension; `other` is the line of a cell. */
struct AtPosition {
  static TOFU_DEVICE Index NumGroups(const PartArguments& a) { return a.extent; }
  static TOFU_DEVICE bool NeighboursAreGroups(const PartArguments& a) { return a.inner == 1; }

  TOFU_DEVICE AtPosition(const PartArguments& a, Index group, Index first, Index step)
      : arguments(a),
        group(group),
        o(first / a.inner),
        i(first % a.inner),
        step_o(step / a.inner),
        step_i(step % a.inner) {}
  TOFU_DEVICE bool is_inside() const { return o < arguments.outer; }
  TOFU_DEVICE Index cell() const { return (o * arguments.extent + group) * arguments.inner + i; }
  TOFU_DEVICE Index other() const { return o * arguments.inner + i; }
  TOFU_DEVICE void Next() {
    o += step_o;
    i += step_i;
    if (i < arguments.inner) return;
    i -= arguments.inner;
    ++o;
  }

  const PartArguments& arguments;
  Index group, o, i, step_o, step_i;
};

/*! \brief The cells of one line along the dimension; `other` is the position of a cell. */
struct OnLine {
  static TOFU_DEVICE Index NumGroups(const PartArguments& a) { return a.outer * a.inner; }
  static TOFU_DEVICE bool NeighboursAreGroups(const PartArguments& a) { return a.inner != 1; }

  TOFU_DEVICE OnLine(const PartArguments& a, Index group, Index first, Index step)
      : arguments(a),
        origin(group / a.inner * a.extent * a.inner + group % a.inner),
        position(first),
        step(step) {}
  TOFU_DEVICE bool is_inside() const { return position < arguments.extent; }
  TOFU_DEVICE Index cell() const { return origin + position * arguments.inner; }
  TOFU_DEVICE Index other() const { return position; }
  TOFU_DEVICE void Next() { position += step; }

  const PartArguments& arguments;
  Index origin, position, step;
};

/*! \brief Groups that a block takes at once; its other threads share the cells of each. */
TOFU_DEVICE int GroupLanes(bool neighbours_are_groups) { return neighbours_are_groups ? 32 : 1; }

/*! \brief Two sums. */
struct SumPair {
  double first;
  double second;

  TOFU_DEVICE void Merge(const SumPair& other) {
    first += other.first;
    second += other.second;
  }
};

/*! \brief rule.Cell(group, other, cell) of all cells of a group, merged, goes to rule.Store. */
template <typename Members, typename Rule>
TOFU_DEVICE void ReduceGroups(const PartArguments& arguments, const Rule& rule) {
  typedef typename Rule::Result Result;
  TOFU_SHARED Result results[kPartThreads];
  const int groups_at_once = GroupLanes(Members::NeighboursAreGroups(arguments));
  const int lanes = kPartThreads / groups_at_once;
  const int lane = static_cast<int>(ThreadIndex()) / groups_at_once;
  const Index num_groups = Members::NumGroups(arguments);
  for (Index chunk = BlockIndex(0); chunk * groups_at_once < num_groups; chunk += NumBlocks(0)) {
    const Index group = chunk * groups_at_once + ThreadIndex() % groups_at_once;
    Result result = rule.Nothing();
    if (group < num_groups) {
      for (Members at(arguments, group, lane, lanes); at.is_inside(); at.Next()) {
        result.Merge(rule.Cell(group, at.other(), at.cell()));
      }
    }
    results[ThreadIndex()] = result;
    for (int half = lanes / 2; half > 0; half /= 2) {
      SyncThreads();
      if (lane < half) {
        results[ThreadIndex()].Merge(results[ThreadIndex() + half * groups_at_once]);
      }
    }
    if (lane == 0 && group < num_groups) rule.Store(group, results[ThreadIndex()]);
    SyncThreads();  // before the next groups' results take their places
  }
}

/*! \brief What rules have in common that write each cell. */
struct CellRule {
  TOFU_DEVICE explicit CellRule(const PartArguments& arguments) : a(arguments) {}
  template <typename Group>
  TOFU_DEVICE void Finish(const Group&, Index) const {}
  const PartArguments& a;
};

/*!
 * \brief rule.Prepare(group) is done once for each thread of a group, then rule.Write for each
 * cell. One thread of the group does rule.Finish: what is written once for a group, and not read by
 * Prepare.
 */
template <typename Members, typename Rule>
TOFU_DEVICE void MapGroups(const PartArguments& arguments, const Rule& rule) {
  const int groups_at_once = GroupLanes(Members::NeighboursAreGroups(arguments));
  const int lanes = kPartThreads / groups_at_once;
  const Index lane = BlockIndex(1) * static_cast<Index>(lanes) + ThreadIndex() / groups_at_once;
  const Index num_groups = Members::NumGroups(arguments);
  for (Index chunk = BlockIndex(0); chunk * groups_at_once < num_groups; chunk += NumBlocks(0)) {
    const Index group = chunk * groups_at_once + ThreadIndex() % groups_at_once;
    if (group >= num_groups) continue;
    const typename Rule::Group prepared = rule.Prepare(group);
    if (arguments.requests[0] != kNothingAsked) {
      const Index step = static_cast<Index>(lanes) * NumBlocks(1);
      for (Members at(arguments, group, lane, step); at.is_inside(); at.Next()) {
        rule.Write(prepared, at.other(), at.cell());
      }
    }
    if (lane == 0) rule.Finish(prepared, group);
  }
}

}  // namespace cuda
}  // namespace tofu

/*! \brief An entry point: a loop over groups by a rule, for data of type TOFU_TYPE. */
#define TOFU_PART(name, loop, members, ...)                                               \
  TOFU_KERNEL(tofu::cuda::kPartThreads)                                                   \
  TOFU_TYPED(name)(tofu::cuda::PartArguments arguments) {                                 \
    tofu::cuda::loop<tofu::cuda::members>(arguments, tofu::cuda::__VA_ARGS__(arguments)); \
  }

#endif  // TOFU_CUDA_GROUP_LOOPS_CUH_
