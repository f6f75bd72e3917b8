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
KernelLaunch ShapeOver(const PartArguments& arguments, bool reduces, int num_multiprocessors) {
  const Index cells = arguments.outer * arguments.extent * arguments.inner;
  KernelLaunch launch;
  launch.threads = kPartThreads;
  launch.blocks = 0;
  if (cells == 0) return launch;
  const Index groups = Members::NumGroups(arguments);
  const Index groups_at_once = GroupLanes(Members::NeighboursAreGroups(arguments));
  const Index lanes = kPartThreads / groups_at_once;
  const Index enough = kBlocksPerMultiprocessor * num_multiprocessors;
  const Index chunks = (groups + groups_at_once - 1) / groups_at_once;
  launch.blocks = static_cast<unsigned>(std::min(chunks, kMostBlocks));
  if (reduces) return launch;
  const Index members = cells / groups;
  const Index shares = (members + lanes * kCellsPerThread - 1) / (lanes * kCellsPerThread);
  launch.blocks_y = static_cast<unsigned>(
      std::max<Index>(1, std::min({shares, enough / launch.blocks, kMostBlocks})));
  return launch;
}

}  // namespace

KernelLaunch ShapeLaunch(PartLoop loop, const PartArguments& arguments, int num_multiprocessors) {
  const bool reduces = loop != PartLoop::kMapPositions && loop != PartLoop::kMapLines;
  const bool takes_positions =
      loop == PartLoop::kReducePositions || loop == PartLoop::kMapPositions;
  return takes_positions ? ShapeOver<AtPosition>(arguments, reduces, num_multiprocessors)
                         : ShapeOver<OnLine>(arguments, reduces, num_multiprocessors);
}

void LaunchPart(const PartKernel& kernel, const std::string& type, int device, StreamHandle stream,
                const PartArguments& arguments) {
  Device& gpu = Device::Get(device);
  PartArguments copied = arguments;
  if (kernel.loop == PartLoop::kReduceAll) {  // all cells are one line
    copied.extent *= copied.outer * copied.inner;
    copied.outer = copied.inner = 1;
  }
  KernelLaunch launch = ShapeLaunch(kernel.loop, copied, gpu.num_multiprocessors());
  launch.function = gpu.FindKernel(kernel.file, type, kernel.name);
  launch.stream = stream;
  Launch(gpu, launch, &copied);
}

}  // namespace cuda
}  // namespace tofu
