/*!
 * \file launch_part.cc
 */
#include "cuda/launch_part.h"

#include <algorithm>

#include "cuda/sort_positions.cuh"

namespace tofu::cuda {
namespace {

// These numbers of blocks saturate a multiprocessor, and any GPU.
constexpr Index kBlocksPerMultiprocessor = 16;
constexpr Index kBlocksOfReduction = 1024;
// A thread must process this many batches to be worth its fixed work.
constexpr Index kBatchesMapped = 4;
constexpr Index kBatchesReduced = 8;
constexpr Index kLeastLanes = 2;  // a single lane reads data that its neighbours do not use
constexpr Index kMostBlocks = 65535;
constexpr Index kMostIndices = Index{1} << 31;
constexpr size_t kBytesOfPartial = sizeof(SumPair);

bool Reduces(PartLoop loop) {
  return loop == PartLoop::kReducePositions || loop == PartLoop::kReduceLines ||
         loop == PartLoop::kReduceAll;
}

bool TakesLines(PartLoop loop) {
  return loop == PartLoop::kReduceLines || loop == PartLoop::kMapLines ||
         loop == PartLoop::kReduceAll;
}

bool LooksUp(PartLoop loop) { return loop == PartLoop::kLookUp || loop == PartLoop::kLookUpSorted; }

Index DivideUp(Index a, Index b) { return (a + b - 1) / b; }

/*! \brief The smallest power of two not below `number`, at least 1 and at most `most`. */
Index PowerOfTwo(Index number, Index most) {
  Index power = 1;
  while (power < number && power < most) power *= 2;
  return power;
}

/*! \brief Numbers of groups and of their elements. */
struct Groups {
  Groups(PartLoop loop, const PartArguments& a)
      : count(TakesLines(loop) ? a.outer * a.inner : a.extent),
        members(TakesLines(loop) ? a.extent : a.outer * a.inner) {}
  Index count;
  Index members;
};

/*! \brief Count the groups, or the sets of groups that a batch spans. */
Index CountUnits(const PartLayout& layout, const Groups& groups, Index batch) {
  return layout.packing == Packing::kOfGroups ? groups.count / batch : groups.count;
}

/*! \brief Count the elements of a group in a batch. */
Index CountMembersOfBatch(const PartLayout& layout, Index batch) {
  return layout.packing == Packing::kOfGroup ? batch : kCellsApart;
}

PartArguments AsOneLine(PartArguments arguments) {
  arguments.extent *= arguments.outer * arguments.inner;
  arguments.outer = arguments.inner = 1;
  return arguments;
}

/*! \brief Return true if 16 bytes of all arrays can be accessed at once. */
bool AreAllAligned(const PartArguments& a) {
  uintptr_t bits = 0;
  for (const void* tensor : a.tensors) bits |= reinterpret_cast<uintptr_t>(tensor);
  return bits % kBytesOfBatch == 0;
}

/*! \brief Neighbours in memory: elements of one group, or of adjacent groups. */
struct Runs {
  Runs(PartLoop loop, const PartArguments& a)
      : cells(TakesLines(loop) ? (a.inner == 1 ? a.extent : 1) : a.inner),
        groups(cells > 1          ? 1
               : TakesLines(loop) ? a.inner
               : LooksUp(loop)    ? 1
                                  : a.extent) {}
  Index cells;
  Index groups;
};

/*! \brief Assign threads to groups and elements, without a place for partial results. The layout of
 * reductions depends only on the shape. */
PartLayout AssignThreads(PartLoop loop, const PartArguments& a, int element_bytes) {
  const Groups groups(loop, a);
  const Runs runs(loop, a);
  const Index batch = kBytesOfBatch / element_bytes;
  PartLayout layout = {};
  layout.waits = Reduces(loop) ? 1 : 0;
  layout.shares = 1;
  const bool may_pack = Reduces(loop) || AreAllAligned(a);
  layout.packing = !may_pack                  ? Packing::kApart
                   : runs.cells % batch == 0  ? Packing::kOfGroup
                   : runs.groups % batch == 0 ? Packing::kOfGroups
                                              : Packing::kApart;
  layout.neighbours_are_groups = runs.groups > 1 ? 1 : 0;
  if (layout.neighbours_are_groups) {
    layout.lanes = static_cast<int>(kPartThreads /
                                    PowerOfTwo(CountUnits(layout, groups, batch), kWarpThreads));
  } else if (layout.packing == Packing::kOfGroup) {
    const Index batches = groups.members / batch;
    const Index wanted = DivideUp(batches, Reduces(loop) ? kBatchesReduced : kBatchesMapped);
    const Index least = std::min(batches, kLeastLanes);
    layout.lanes = static_cast<int>(PowerOfTwo(std::max(wanted, least), kPartThreads));
  } else {
    layout.lanes =
        static_cast<int>(PowerOfTwo(DivideUp(groups.members, kCellsApart), kPartThreads));
  }
  if (Reduces(loop)) {
    const Index blocks = DivideUp(CountUnits(layout, groups, batch), kPartThreads / layout.lanes);
    const Index wanted = DivideUp(kBlocksOfReduction, blocks);
    const Index by_block = layout.lanes * kBatchesMapped * CountMembersOfBatch(layout, batch);
    layout.shares = std::max<Index>(1, std::min(wanted, groups.members / by_block));
  }
  return layout;
}

/*! \brief The kernel with this packing. */
std::string NameOf(const PartKernel& kernel, Packing packing) {
  return std::string(kernel.name) + (packing == Packing::kOfGroup    ? "_of_group"
                                     : packing == Packing::kOfGroups ? "_of_groups"
                                                                     : "");
}

unsigned BlocksFor(Index units, int lanes) {
  return static_cast<unsigned>(std::min(DivideUp(units, kPartThreads / lanes), kMostBlocks));
}

/*! \brief Count the blocks that share the elements of a group when they are written. */
unsigned CountCellShares(const PartLayout& layout, const Groups& groups, Index batch, Index blocks,
                         int num_multiprocessors) {
  const Index shares = DivideUp(groups.members, layout.lanes * CountMembersOfBatch(layout, batch));
  const Index enough = kBlocksPerMultiprocessor * num_multiprocessors / blocks;
  return static_cast<unsigned>(std::max<Index>(1, std::min({shares, enough, kMostBlocks})));
}

Index SizeOfKeys(const PartArguments& a) {
  return PowerOfTwo(std::max<Index>(a.positions.count, kSortSpan), kMostIndices);
}

/*! \brief The launches that sort indices by their rows. */
std::vector<PartLaunch> LaunchesOfSort(PartArguments arguments) {
  Sorting& sorting = arguments.sorting;
  std::vector<PartLaunch> launches;
  const auto add = [&](const char* name, Index span, Index stride, Index blocks) {
    sorting.span = span;
    sorting.stride = stride;
    arguments.layout.waits = stride == 0 ? 1 : 0;
    launches.push_back({name, arguments, static_cast<unsigned>(std::min(blocks, kMostBlocks)), 1});
  };
  const Index blocks = sorting.size / kSortSpan;
  add("tofu_sort_block", 0, 0, blocks);
  for (Index span = 2 * kSortSpan; span <= sorting.size; span *= 2) {
    for (Index stride = span / 2; stride >= kSortSpan; stride /= TakesTwoStrides(stride) ? 4 : 2) {
      add("tofu_sort_apart", span, stride, DivideUp(sorting.size / 2, kPartThreads));
    }
    add("tofu_sort_block", span, 0, blocks);
  }
  add("tofu_find_rows", 0, 1, DivideUp(arguments.positions.extent + 1, kPartThreads));
  return launches;
}

}  // namespace

int BytesOfElement(const std::string& type) {
  return type == "float64" ? 8 : type == "float32" ? 4 : 2;
}

size_t ScratchBytesOf(const PartKernel& kernel, const PartArguments& arguments, int element_bytes) {
  if (kernel.loop == PartLoop::kReduceAll) {
    return ScratchBytesOf({kernel.file, kernel.name, PartLoop::kReduceLines}, AsOneLine(arguments),
                          element_bytes);
  }
  if (kernel.loop == PartLoop::kLookUpSorted) {
    return static_cast<size_t>(SizeOfKeys(arguments) + arguments.positions.extent + 1) *
           sizeof(Index);
  }
  const Groups groups(kernel.loop, arguments);
  if (!Reduces(kernel.loop) || groups.count * groups.members == 0) return 0;
  const Index shares = AssignThreads(kernel.loop, arguments, element_bytes).shares;
  return shares == 1 ? 0 : static_cast<size_t>(groups.count * shares) * kBytesOfPartial;
}

std::vector<PartLaunch> LaunchesOf(const PartKernel& kernel, const PartArguments& arguments,
                                   int element_bytes, int num_multiprocessors, void* scratch) {
  if (kernel.loop == PartLoop::kReduceAll) {
    return LaunchesOf({kernel.file, kernel.name, PartLoop::kReduceLines}, AsOneLine(arguments),
                      element_bytes, num_multiprocessors, scratch);
  }
  const Groups groups(kernel.loop, arguments);
  std::vector<PartLaunch> launches;
  if (groups.count * groups.members == 0) return launches;
  PartLaunch launch = {kernel.name, arguments, 0, 1};
  if (kernel.loop == PartLoop::kLookUpSorted) {
    if (arguments.positions.count >= kMostIndices || arguments.positions.extent >= kMostIndices) {
      throw CudaError("a lookup of more than 2^31 rows or indices has no gradient on a GPU");
    }
    auto* keys = static_cast<Index*>(scratch);
    launch.arguments.sorting = {keys, keys + SizeOfKeys(arguments), SizeOfKeys(arguments), 0, 0};
    launches = LaunchesOfSort(launch.arguments);
  }
  PartLayout& layout = launch.arguments.layout;
  layout = AssignThreads(kernel.loop, arguments, element_bytes);
  const Index batch = kBytesOfBatch / element_bytes;
  launch.name = NameOf(kernel, layout.packing);
  launch.blocks = BlocksFor(CountUnits(layout, groups, batch), layout.lanes);
  launch.blocks_y = Reduces(kernel.loop) ? static_cast<unsigned>(layout.shares)
                                         : CountCellShares(layout, groups, batch, launch.blocks,
                                                           num_multiprocessors);
  layout.partials = layout.shares == 1 ? nullptr : scratch;
  launches.push_back(launch);
  if (layout.shares == 1) return launches;
  layout.merges = 1;
  layout.packing = Packing::kApart;
  launch.name = kernel.name;
  layout.neighbours_are_groups = 0;
  layout.lanes = static_cast<int>(PowerOfTwo(layout.shares, kPartThreads));
  launch.blocks = BlocksFor(groups.count, layout.lanes);
  launch.blocks_y = 1;
  launches.push_back(launch);
  return launches;
}

void LaunchPart(const PartKernel& kernel, const std::string& type, int device, StreamHandle stream,
                const PartArguments& arguments) {
  Device& gpu = Device::Get(device);
  const int element_bytes = BytesOfElement(type);
  const size_t bytes = ScratchBytesOf(kernel, arguments, element_bytes);
  void* scratch = bytes == 0 ? nullptr : reinterpret_cast<void*>(gpu.Scratch(stream, bytes));
  for (PartLaunch& one :
       LaunchesOf(kernel, arguments, element_bytes, gpu.num_multiprocessors(), scratch)) {
    KernelLaunch launch;
    launch.function = gpu.FindKernel(kernel.file, type, one.name);
    launch.blocks = one.blocks;
    launch.blocks_y = one.blocks_y;
    launch.threads = kPartThreads;
    launch.stream = stream;
    Launch(gpu, launch, &one.arguments);
  }
}

}  // namespace tofu::cuda
