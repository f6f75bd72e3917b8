/*!
 * \file group_loops.cuh
 * \brief Loops of the parts of lowered operators: over the cells of a tensor, group by group.
 *
 * A tensor is [outer][extent][inner], as in nnvm/parts/dimension_view.h. A group is either a
 * position of the middle dimension, with all its cells, or a line along that dimension. A rule says
 * what is done with a group and with each of its cells; it is made of the arguments. Sums are taken
 * in double precision, in an order that depends on the shape and the element's size alone.
 *
 * The loops read the cells of the first `kStreams` inputs for the rule, a batch at once: so many
 * loads are under way that memory is busy, which one cell after the other does not achieve.
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

/*! \brief How the threads of a launch share groups and cells; launch_part.cc chooses. */
struct PartLayout {
  int lanes;                  // threads that share a group, a power of two
  int neighbours_are_groups;  // neighbouring threads take neighbouring groups, else cells of one
  int is_packed;              // the cells of a batch are neighbours in memory
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

/*! \brief Where a cell lies: in the tensor, and which line or which position it is of. */
struct Place {
  Index cell;
  Index other;  // its line where a group is a position, its position where a group is a line
  Index outer;
};

/*! \brief The cells at one position of the dimension. */
struct AtPosition {
  static TOFU_DEVICE Index NumGroups(const PartArguments& a) { return a.extent; }

  TOFU_DEVICE AtPosition(const PartArguments& a, Index group, Index first, Index step)
      : arguments(a),
        group(group),
        o(first / a.inner),
        i(first % a.inner),
        step_o(step / a.inner),
        step_i(step % a.inner) {}
  TOFU_DEVICE bool is_inside() const { return o < arguments.outer; }
  TOFU_DEVICE Place place() const {
    return Place{(o * arguments.extent + group) * arguments.inner + i, o * arguments.inner + i, o};
  }
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

/*! \brief The cells of one line along the dimension. */
struct OnLine {
  static TOFU_DEVICE Index NumGroups(const PartArguments& a) { return a.outer * a.inner; }

  TOFU_DEVICE OnLine(const PartArguments& a, Index group, Index first, Index step)
      : arguments(a),
        outer(a.inner == 1 ? group : group / a.inner),
        origin(outer * a.extent * a.inner + (group - outer * a.inner)),
        position(first),
        step(step) {}
  TOFU_DEVICE bool is_inside() const { return position < arguments.extent; }
  TOFU_DEVICE Place place() const {
    return Place{origin + position * arguments.inner, position, outer};
  }
  TOFU_DEVICE void Next() { position += step; }

  const PartArguments& arguments;
  Index outer, origin, position, step;
};

constexpr int kBytesOfBatch = 16;  // cells that a thread takes at once

/*! \brief Whether 16 bytes can be read at once, of the first inputs and where `writes` to the first
 * output. */
template <int kStreams>
TOFU_DEVICE bool AreAligned(const PartArguments& arguments, bool writes) {
  typedef unsigned long long Number;  // NOLINT(runtime/int)
  Number bits = 0;
  TOFU_UNROLL
  for (int s = 0; s < kStreams; ++s) bits |= reinterpret_cast<Number>(arguments.tensors[s]);
  if (writes) bits |= reinterpret_cast<Number>(arguments.tensors[arguments.num_inputs]);
  return bits % kBytesOfBatch == 0;
}

/*! \brief The cells of a batch, of each input that is read with it. */
template <typename T, int kStreams, bool kPacked>
struct Batch {
  typedef typename RealType<T>::type Real;
  static constexpr int kCells = kBytesOfBatch / sizeof(T);
  static constexpr int kPlaces = kPacked ? 1 : kCells;

  /*! \brief Takes the next cells of a group. Those that lie together are all inside. */
  template <typename Members>
  TOFU_DEVICE void Locate(Members* at) {
    TOFU_UNROLL
    for (int b = 0; b < kPlaces; ++b) {
      inside[b] = at->is_inside();
      places[b] = at->place();
      at->Next();
    }
  }
  TOFU_DEVICE bool has(int b) const { return inside[kPacked ? 0 : b]; }
  TOFU_DEVICE Place place(int b) const {
    if constexpr (kPacked) return Place{places[0].cell + b, places[0].other + b, places[0].outer};
    return places[b];
  }

  TOFU_DEVICE void Read(const PartArguments& arguments, bool at_once) {
    TOFU_UNROLL
    for (int s = 0; s < kStreams; ++s) ReadFrom(arguments.Input<T>(s), at_once, cells[s]);
  }

  /*! \brief Writes the values, or adds them, to the first output; at once where they lie together.
   */
  TOFU_DEVICE void Write(const PartArguments& arguments, const Real* values) const {
    T* target = arguments.Output<T>(0);
    T results[kCells] = {};
    const bool adds = arguments.requests[0] == kAdditionAsked;
    if (adds) ReadFrom(target, true, results);
    TOFU_UNROLL
    for (int b = 0; b < kCells; ++b) {
      if (!has(b)) continue;
      results[b] = static_cast<T>(adds ? static_cast<Real>(results[b]) + values[b] : values[b]);
    }
    if constexpr (kPacked) {
      Words4 words;
      CopyBytes(&words, results, sizeof(words));
      WriteWords(target + places[0].cell, words);
    } else {
      TOFU_UNROLL
      for (int b = 0; b < kCells; ++b) {
        if (has(b)) target[places[b].cell] = results[b];
      }
    }
  }

  TOFU_DEVICE void ReadFrom(const T* tensor, bool at_once, T* found) const {
    const auto cell_of = [](const Place& at) { return at.cell; };
    if (kPacked && !at_once) {
      TOFU_UNROLL
      for (int b = 0; b < kCells; ++b) found[b] = tensor[place(b).cell];
    } else {
      ReadAs(tensor, cell_of, found);
    }
  }

  /*! \brief The place of `b`; number by number, since a choice between objects would have them in
   * memory. */
  TOFU_DEVICE Place readable(int b) const {
    return Place{inside[b] ? places[b].cell : places[0].cell,
                 inside[b] ? places[b].other : places[0].other,
                 inside[b] ? places[b].outer : places[0].outer};
  }

  /*! \brief The cells of a tensor, each where `cell_of` finds that of a place; of neighbours the
   * first is asked for. Where there is no cell, the first one is read again, so that no load waits
   * for the question. */
  template <typename CellOf>
  TOFU_DEVICE void ReadAs(const T* tensor, const CellOf& cell_of, T* found) const {
    if constexpr (kPacked) {
      const Words4 words = *reinterpret_cast<const Words4*>(tensor + cell_of(places[0]));
      CopyBytes(found, &words, sizeof(words));
    } else {
      TOFU_UNROLL
      for (int b = 0; b < kCells; ++b) found[b] = tensor[cell_of(readable(b))];
    }
  }

  /*! \brief What the inputs hold at cell `b`. */
  TOFU_DEVICE void Gather(int b, T* streams) const {
    TOFU_UNROLL
    for (int s = 0; s < kStreams; ++s) streams[s] = cells[s][b];
  }

  Place places[kPlaces];
  bool inside[kPlaces];
  T cells[kStreams > 0 ? kStreams : 1][kCells];
};

/*! \brief What this thread does in its block: `lane` of the groups that have its `slot`. */
struct ThreadPlace {
  TOFU_DEVICE explicit ThreadPlace(const PartLayout& layout)
      : groups_at_once(kPartThreads / layout.lanes),
        lane(static_cast<int>(ThreadIndex()) / (layout.neighbours_are_groups ? groups_at_once : 1) %
             layout.lanes),
        slot(static_cast<int>(ThreadIndex()) / (layout.neighbours_are_groups ? 1 : layout.lanes) %
             groups_at_once) {}
  int groups_at_once, lane, slot;
};

/*! \brief A sum. */
struct Sum {
  double value;
  TOFU_DEVICE void Merge(const Sum& other) { value += other.value; }
};

/*! \brief Waits for the threads of this thread's group, who may be of its own warp all. */
TOFU_DEVICE void SyncLanes(bool are_within_warp) {
  if (are_within_warp) {
    SyncWarp();
  } else {
    SyncThreads();
  }
}

/*! \brief Two sums. */
struct SumPair {
  double first;
  double second;

  TOFU_DEVICE void Merge(const SumPair& other) {
    first += other.first;
    second += other.second;
  }
};

/*! \brief rule.Cell of a thread's cells of a group, merged. */
template <typename Members, typename Rule, bool kPacked>
TOFU_DEVICE typename Rule::Result ReduceCells(const PartArguments& arguments, const Rule& rule,
                                              Index group, Index lane) {
  typedef typename Rule::Element T;
  typedef Batch<T, Rule::kStreams, kPacked> Cells;
  const bool at_once = AreAligned<Rule::kStreams>(arguments, false);
  const typename Rule::Group prepared = rule.Prepare(group);
  typename Rule::Result result = rule.Nothing();
  const Index width = kPacked ? Cells::kCells : 1;
  const Index step = arguments.layout.lanes * arguments.layout.shares * width;
  for (Members at(arguments, group, lane * width, step); at.is_inside();) {
    Cells batch;
    batch.Locate(&at);
    batch.Read(arguments, at_once);
    TOFU_UNROLL
    for (int b = 0; b < Cells::kCells; ++b) {
      if (!batch.has(b)) continue;
      T streams[Rule::kStreams];
      batch.Gather(b, streams);
      result.Merge(rule.Cell(prepared, batch.place(b), streams));
    }
  }
  return result;
}

/*! \brief What the blocks that share a group have found, merged by the group's lanes. */
template <typename Result>
TOFU_DEVICE Result MergeShares(const PartLayout& layout, Index group, int lane, Result result) {
  const Result* partials = static_cast<const Result*>(layout.partials) + group * layout.shares;
  for (Index share = lane; share < layout.shares; share += layout.lanes) {
    result.Merge(partials[share]);
  }
  return result;
}

/*! \brief rule.Cell(group, place, inputs) of all cells of a group, merged, goes to rule.Store.
 * Where several blocks share a group, a second launch merges what they found. */
template <typename Members, typename Rule>
TOFU_DEVICE void ReduceGroups(const PartArguments& arguments, const Rule& rule) {
  typedef typename Rule::Result Result;
  TOFU_SHARED Result results[kPartThreads];
  const PartLayout& layout = arguments.layout;
  const ThreadPlace at(layout);
  const Index num_groups = Members::NumGroups(arguments);
  const Index lane = BlockIndex(1) * static_cast<Index>(layout.lanes) + at.lane;
  const int stride = layout.neighbours_are_groups ? at.groups_at_once : 1;
  Result* own = &results[ThreadIndex()];
  const bool is_within_warp = !layout.neighbours_are_groups && layout.lanes <= kWarpThreads;
  for (Index chunk = BlockIndex(0); chunk * at.groups_at_once < num_groups; chunk += NumBlocks(0)) {
    const Index group = chunk * at.groups_at_once + at.slot;
    Result result = rule.Nothing();
    if (group < num_groups) {
      result = layout.merges      ? MergeShares(layout, group, at.lane, result)
               : layout.is_packed ? ReduceCells<Members, Rule, true>(arguments, rule, group, lane)
                                  : ReduceCells<Members, Rule, false>(arguments, rule, group, lane);
    }
    *own = result;
    for (int half = layout.lanes / 2; half > 0; half /= 2) {
      SyncLanes(is_within_warp);
      if (at.lane < half) own->Merge(own[half * stride]);
    }
    if (at.lane == 0 && group < num_groups) {
      if (layout.partials != nullptr && !layout.merges) {
        static_cast<Result*>(layout.partials)[group * layout.shares + BlockIndex(1)] = *own;
      } else {
        rule.Store(group, *own);
      }
    }
    if (layout.lanes > 1) SyncLanes(is_within_warp);  // before the next results take their places
  }
}

/*! \brief What rules have in common that write each cell. */
struct CellRule {
  TOFU_DEVICE explicit CellRule(const PartArguments& arguments) : a(arguments) {}
  template <typename Group>
  TOFU_DEVICE void Finish(const Group&, Index) const {}
  const PartArguments& a;
};

/*! \brief rule.Cell of each cell of a batch. A rule may have more to do with a batch than with each
 * cell alone: take.cuh. */
template <typename Rule, typename Cells>
TOFU_DEVICE void ComputeBatch(const Rule& rule, const typename Rule::Group& group,
                              const Cells& batch, typename Cells::Real* values) {
  TOFU_UNROLL
  for (int b = 0; b < Cells::kCells; ++b) {
    if (!batch.has(b)) continue;
    typename Rule::Element streams[Rule::kStreams > 0 ? Rule::kStreams : 1];
    batch.Gather(b, streams);
    values[b] = rule.Cell(group, batch.place(b), streams);
  }
}

/*! \brief Writes a thread's cells of a group. */
template <typename Members, typename Rule, bool kPacked>
TOFU_DEVICE void MapCells(const PartArguments& arguments, const Rule& rule,
                          const typename Rule::Group& prepared, Index group, Index lane,
                          Index lanes) {
  typedef Batch<typename Rule::Element, Rule::kStreams, kPacked> Cells;
  const Index width = kPacked ? Cells::kCells : 1;
  for (Members at(arguments, group, lane * width, lanes * width); at.is_inside();) {
    Cells batch;
    batch.Locate(&at);
    batch.Read(arguments, true);
    typename Cells::Real values[Cells::kCells] = {};
    ComputeBatch(rule, prepared, batch, values);
    batch.Write(arguments, values);
  }
}

/*!
 * \brief rule.Prepare(group) is done once for each thread of a group, then rule.Cell for each cell,
 * which goes to the first output. One thread of the group does rule.Finish: what is written once
 * for a group, and not read by Prepare.
 */
template <typename Members, typename Rule>
TOFU_DEVICE void MapGroups(const PartArguments& arguments, const Rule& rule) {
  const PartLayout& layout = arguments.layout;
  const ThreadPlace at(layout);
  const Index lane = BlockIndex(1) * static_cast<Index>(layout.lanes) + at.lane;
  const Index lanes = static_cast<Index>(layout.lanes) * NumBlocks(1);
  const Index num_groups = Members::NumGroups(arguments);
  const bool is_packed =
      layout.is_packed && AreAligned<(Rule::kStreams > 0 ? Rule::kStreams : 1)>(arguments, true);
  for (Index chunk = BlockIndex(0); chunk * at.groups_at_once < num_groups; chunk += NumBlocks(0)) {
    const Index group = chunk * at.groups_at_once + at.slot;
    if (group >= num_groups) continue;
    const typename Rule::Group prepared = rule.Prepare(group);
    if (arguments.requests[0] != kNothingAsked) {
      if (is_packed) {
        MapCells<Members, Rule, true>(arguments, rule, prepared, group, lane, lanes);
      } else {
        MapCells<Members, Rule, false>(arguments, rule, prepared, group, lane, lanes);
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
