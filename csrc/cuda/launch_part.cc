/*!
 * \file launch_part.cc
 */
#include "cuda/launch_part.h"

#include <algorithm>

namespace tofu {
namespace cuda {
namespace {

// Blocks that keep a multiprocessor busy; cells of a group that a thread takes at least, where a
// group is shared by several blocks.
constexpr Index kBlocksPerMultiprocessor = 16;
constexpr Index kCellsPerThread = 4;
constexpr Index kMostBlocks = 65535;

template <typename Members>
KernelLaunch ShapeOf(const PartArguments& arguments, bool reduces, int num_multiprocessors) {
  const Index groups = Members::NumGroups(arguments);
  const Index groups_at_once = GroupLanes(Members::NeighboursAreGroups(arguments));
  const Index lanes = kPartThreads / groups_at_once;
  const Index enough = kBlocksPerMultiprocessor * num_multiprocessors;
  const Index chunks = (groups + groups_at_once - 1) / groups_at_once;
  KernelLaunch launch;
  launch.threads = kPartThreads;
  launch.blocks = static_cast<unsigned>(std::min(chunks, kMostBlocks));
  if (reduces || chunks == 0) return launch;
  const Index members = arguments.outer * arguments.extent * arguments.inner / groups;
  const Index shares = (members + lanes * kCellsPerThread - 1) / (lanes * kCellsPerThread);
  launch.blocks_y = static_cast<unsigned>(
      std::max<Index>(1, std::min({shares, enough / launch.blocks, kMostBlocks})));
  return launch;
}

}  // namespace

void LaunchPart(const PartKernel& kernel, const std::string& type, int device, StreamHandle stream,
                const PartArguments& arguments) {
  Device& gpu = Device::Get(device);
  const bool reduces = kernel.loop != PartLoop::kMapPositions && kernel.loop != PartLoop::kMapLines;
  const bool takes_positions =
      kernel.loop == PartLoop::kReducePositions || kernel.loop == PartLoop::kMapPositions;
  PartArguments copied = arguments;
  if (kernel.loop == PartLoop::kReduceAll) {  // all cells are one line
    copied.extent *= copied.outer * copied.inner;
    copied.outer = copied.inner = 1;
  }
  KernelLaunch launch = takes_positions
                            ? ShapeOf<AtPosition>(copied, reduces, gpu.num_multiprocessors())
                            : ShapeOf<OnLine>(copied, reduces, gpu.num_multiprocessors());
  launch.function = gpu.FindKernel(kernel.file, type, kernel.name);
  launch.stream = stream;
  Launch(gpu, launch, &copied);
}

}  // namespace cuda
}  // namespace tofu
