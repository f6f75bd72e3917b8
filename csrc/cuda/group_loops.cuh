/*!
 * \file group_loops.cuh
 * \brief Loop over the elements of a tensor, group by group, for parts of lowered operators.
 *
 * A rule determines what is done with a group and with each element. Sums are computed in double
 * precision, in an order that depends only on the shape and on the element size. A loop reads a
 * batch of elements of the first `kStreams` inputs at once, so that enough reads are under way to
 * saturate memory.
 */
#pragma once

#include "cell_batch.cuh"

namespace tofu::cuda {

/*! \brief The place of a thread in its block: `lane` of the groups in its `slot`. */
struct ThreadPlace {
  TOFU_DEVICE explicit ThreadPlace(const PartLayout& layout)
      : slots(kPartThreads / layout.lanes),
        lane(static_cast<int>(ThreadIndex()) / (layout.neighbours_are_groups ? slots : 1) %
             layout.lanes),
        slot(static_cast<int>(ThreadIndex()) / (layout.neighbours_are_groups ? 1 : layout.lanes) %
             slots) {}
  int slots, lane, slot;
};

struct Sum {
  double value;
  TOFU_DEVICE void Merge(const Sum& other) { value += other.value; }
};

struct SumPair {
  double first;
  double second;

  TOFU_DEVICE void Merge(const SumPair& other) {
    first += other.first;
    second += other.second;
  }
};

/*! \brief Call rule.Prepare for each group of a batch. */
template <typename Cells, typename Rule>
TOFU_DEVICE void PrepareGroups(const Rule& rule, Index group, typename Rule::Group* prepared) {
  TOFU_UNROLL
  for (int g = 0; g < Cells::kGroups; ++g) prepared[g] = rule.Prepare(group + g);
}

/*! \brief Merge rule.Cell of a thread's elements, for each group of its batches. */
template <typename Members, typename Cells, typename Rule>
TOFU_DEVICE void ReduceCells(const PartArguments& arguments, const Rule& rule, Index group,
                             Index lane, typename Rule::Result* results) {
  const bool at_once = AreAligned<Rule::kStreams>(arguments);
  typename Rule::Group prepared[Cells::kGroups];
  PrepareGroups<Cells>(rule, group, prepared);
  const Index step = arguments.layout.lanes * arguments.layout.shares * Cells::kMembers;
  for (Members at(arguments, group, lane * Cells::kMembers, step); at.is_inside();) {
    Cells batch;
    batch.Locate(&at);
    batch.Read(arguments, at_once);
    TOFU_UNROLL
    for (int b = 0; b < Cells::kCells; ++b) {
      if (!batch.has(b)) continue;
      typename Cells::Element streams[Rule::kStreams];
      batch.Gather(b, streams);
      const int g = batch.group(b);
      results[g].Merge(rule.Cell(prepared[g], batch.place(b), streams));
    }
  }
}

/*! \brief Merge the partial results of the blocks that share a group. */
template <typename Result>
TOFU_DEVICE void MergeShares(const PartLayout& layout, Index group, int lane, Result* result) {
  const Result* partials = static_cast<const Result*>(layout.partials) + group * layout.shares;
  for (Index share = lane; share < layout.shares; share += layout.lanes) {
    result->Merge(partials[share]);
  }
}

/*! \brief Return true if the lanes of each group are threads of one warp. */
TOFU_DEVICE bool AreWithinWarp(const PartLayout& layout) {
  return !layout.neighbours_are_groups && layout.lanes <= kWarpThreads;
}

/*! \brief Merge the results of a group's lanes into `results[ThreadIndex()]` of the first lane. */
template <typename Result>
TOFU_DEVICE void MergeLanes(const PartLayout& layout, const ThreadPlace& at, Result* results) {
  const int stride = layout.neighbours_are_groups ? at.slots : 1;
  for (int half = layout.lanes / 2; half > 0; half /= 2) {
    SyncLanes(AreWithinWarp(layout));
    Result* own = &results[ThreadIndex()];
    if (at.lane < half) own->Merge(own[half * stride]);
  }
}

/*! \brief Merge rule.Cell(group, place, inputs) of all elements of a group and pass it to
 * rule.Store. If several blocks share a group, a second launch merges their results. */
template <typename T, typename Members, Packing kPacking, typename Rule>
TOFU_DEVICE void ReduceGroups(const PartArguments& arguments, const Rule& rule) {
  typedef typename Rule::Result Result;
  typedef Batch<T, Rule::kStreams, kPacking> Cells;
  TOFU_SHARED Result shared[kPartThreads];
  const PartLayout& layout = arguments.layout;
  const ThreadPlace at(layout);
  const Index num_groups = Members::NumGroups(arguments);
  const Index lane = BlockIndex(1) * static_cast<Index>(layout.lanes) + at.lane;
  const Index at_once = static_cast<Index>(at.slots) * Cells::kGroups;
  for (Index chunk = BlockIndex(0); chunk * at_once < num_groups; chunk += NumBlocks(0)) {
    const Index group = chunk * at_once + at.slot * Cells::kGroups;
    Result results[Cells::kGroups];
    TOFU_UNROLL
    for (int g = 0; g < Cells::kGroups; ++g) results[g] = rule.Nothing();
    if (group < num_groups) {
      if (layout.merges) {
        MergeShares(layout, group, at.lane, results);
      } else {
        ReduceCells<Members, Cells>(arguments, rule, group, lane, results);
      }
    }
    TOFU_UNROLL
    for (int g = 0; g < Cells::kGroups; ++g) {
      shared[ThreadIndex()] = results[g];
      MergeLanes(layout, at, shared);
      if (at.lane == 0 && group < num_groups) {
        const Result& all = shared[ThreadIndex()];
        if (layout.partials != nullptr && !layout.merges) {
          static_cast<Result*>(layout.partials)[(group + g) * layout.shares + BlockIndex(1)] = all;
        } else {
          rule.Store(group + g, all);
        }
      }
      // wait until the results are read, before they are overwritten
      if (layout.lanes > 1) SyncLanes(AreWithinWarp(layout));
    }
  }
}

/*! \brief Base of rules that write each element. */
struct CellRule {
  template <typename Group>
  TOFU_DEVICE void Finish(const Group&, Index) const {}
  const PartArguments& a;
};

/*! \brief Compute rule.Cell of each element of a batch. Overloads in take.cuh process a batch as a
 * whole. */
template <typename Rule, typename Cells>
TOFU_DEVICE void ComputeBatch(const Rule& rule, const typename Rule::Group* prepared,
                              const Cells& batch, typename Cells::Real* values) {
  TOFU_UNROLL
  for (int b = 0; b < Cells::kCells; ++b) {
    if (!batch.has(b)) continue;
    typename Cells::Element streams[Rule::kStreams > 0 ? Rule::kStreams : 1];
    batch.Gather(b, streams);
    values[b] = rule.Cell(prepared[batch.group(b)], batch.place(b), streams);
  }
}

/*! \brief Write a thread's elements. */
template <typename Members, typename Cells, typename Rule>
TOFU_DEVICE void MapCells(const PartArguments& arguments, const Rule& rule,
                          const typename Rule::Group* prepared, Index group, Index lane,
                          Index lanes) {
  const Index step = lanes * Cells::kMembers;
  for (Members at(arguments, group, lane * Cells::kMembers, step); at.is_inside();) {
    Cells batch;
    batch.Locate(&at);
    batch.Read(arguments, true);
    typename Cells::Real values[Cells::kCells] = {};
    ComputeBatch(rule, prepared, batch, values);
    batch.Write(arguments, values);
  }
}

/*!
 * \brief Call rule.Prepare(group) on each thread of a group, then rule.Cell for each element of the
 * first output. One thread per group calls rule.Finish, which may write what Prepare does not read.
 *
 * Neighbours that are written at once must be aligned.
 */
template <typename T, typename Members, Packing kPacking, typename Rule>
TOFU_DEVICE void MapGroups(const PartArguments& arguments, const Rule& rule) {
  typedef Batch<T, Rule::kStreams, kPacking> Cells;
  const PartLayout& layout = arguments.layout;
  const ThreadPlace at(layout);
  const Index lane = BlockIndex(1) * static_cast<Index>(layout.lanes) + at.lane;
  const Index lanes = static_cast<Index>(layout.lanes) * NumBlocks(1);
  const Index num_groups = Members::NumGroups(arguments);
  const Index at_once = static_cast<Index>(at.slots) * Cells::kGroups;
  for (Index chunk = BlockIndex(0); chunk * at_once < num_groups; chunk += NumBlocks(0)) {
    const Index group = chunk * at_once + at.slot * Cells::kGroups;
    if (group >= num_groups) continue;
    typename Rule::Group prepared[Cells::kGroups];
    PrepareGroups<Cells>(rule, group, prepared);
    if (arguments.requests[0] != kNothingRequested) {
      MapCells<Members, Cells>(arguments, rule, prepared, group, lane, lanes);
    }
    if (lane != 0) continue;
    TOFU_UNROLL
    for (int g = 0; g < Cells::kGroups; ++g) rule.Finish(prepared[g], group + g);
  }
}

}  // namespace tofu::cuda

#define TOFU_PART_PACKED(name, loop, members, packing, ...)                            \
  TOFU_KERNEL(tofu::cuda::kPartThreads)                                                \
  TOFU_TYPED(name)(tofu::cuda::PartArguments arguments) {                              \
    tofu::cuda::loop<TOFU_ELEMENT, tofu::cuda::members, tofu::cuda::Packing::packing>( \
        arguments, tofu::cuda::__VA_ARGS__{arguments});                                \
  }

/*! \brief Entry points of a loop over groups by a rule, for data of type TOFU_TYPE: one for each
 * packing, with no more registers than it needs. */
#define TOFU_PART(name, loop, members, ...)                               \
  TOFU_PART_PACKED(name, loop, members, kApart, __VA_ARGS__)              \
  TOFU_PART_PACKED(name##_of_group, loop, members, kOfGroup, __VA_ARGS__) \
  TOFU_PART_PACKED(name##_of_groups, loop, members, kOfGroups, __VA_ARGS__)
