/*!
 * \file test_launch_part.cc
 * \brief Launches of the kernels of lowered operators, for tensors of any size.
 */
#include <cstdint>

#include "../core/check.h"
#include "cuda/group_loops.cuh"
#include "cuda/launch_part.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::Random;

/*! \brief Positions and lines of tensors of up to 2^45 cells, without the memory. */
void TestCellsOfHugeTensors(uint64_t seed) {
  Random random(seed);
  PartArguments a = {};
  a.outer = random.Draw(1, 1 << 15);
  a.extent = random.Draw(1, 1 << 15);
  a.inner = random.Draw(0, 3) == 0 ? 1 : random.Draw(1, 1 << 15);
  const Index position = random.Draw(0, a.extent - 1);
  Index other = random.Draw(0, a.outer * a.inner - 1);
  const Index step = random.Draw(1, a.outer * a.inner);
  for (AtPosition at(a, position, other, step); at.is_inside(); at.Next(), other += step) {
    CHECK(at.place().other == other);
    CHECK(at.place().outer == other / a.inner);
    CHECK(at.place().cell == (other / a.inner * a.extent + position) * a.inner + other % a.inner);
    if (other / step > 20) break;
  }
  const Index line = random.Draw(0, a.outer * a.inner - 1);
  const Index last = a.extent - 1;
  const OnLine on(a, line, last, 1);
  CHECK(on.is_inside() && on.place().other == last);
  CHECK(on.place().cell == (line / a.inner * a.extent + last) * a.inner + line % a.inner);
}

/*! \brief What GPUs allow, for tensors of any size; no tensor without cells is launched. */
void TestLaunchesAreWithinLimits(uint64_t seed) {
  Random random(seed);
  PartArguments a = {};
  a.outer = random.Draw(0, int64_t{1} << random.Draw(0, 15));
  a.extent = random.Draw(1, int64_t{1} << random.Draw(0, 22));
  a.inner = random.Draw(1, int64_t{1} << random.Draw(0, 22));
  const int bytes = 1 << random.Draw(1, 3);
  for (PartLoop loop : {PartLoop::kReducePositions, PartLoop::kMapPositions, PartLoop::kReduceLines,
                        PartLoop::kMapLines, PartLoop::kReduceAll, PartLoop::kLookUp}) {
    const PartKernel kernel = {"", "kernel", loop};
    size_t scratch = ScratchBytesOf(kernel, a, bytes);
    const auto launches = LaunchesOf(kernel, a, bytes, 132, &scratch);
    CHECK(launches.empty() == (a.outer == 0));
    for (const PartLaunch& launch : launches) {
      CHECK(launch.blocks >= 1 && launch.blocks <= 65535);
      CHECK(launch.blocks_y >= 1 && launch.blocks_y <= 65535);
      CHECK(kPartThreads % launch.arguments.layout.lanes == 0);
    }
    CHECK(launches.size() < 2 || (launches.size() == 2 && scratch > 0));
  }
}

/*! \brief A sum is shared by the same blocks on every GPU, wherever the tensor lies in memory. */
void TestSumsHaveOneOrder(uint64_t seed) {
  Random random(seed);
  PartArguments a = {};
  a.outer = random.Draw(1, 300);
  a.extent = random.Draw(1, 5000);
  a.inner = random.Draw(0, 1) == 0 ? 1 : random.Draw(1, 300);
  PartArguments shifted = a;
  shifted.tensors[0] = reinterpret_cast<void*>(static_cast<uintptr_t>(4));
  for (PartLoop loop : {PartLoop::kReducePositions, PartLoop::kReduceLines}) {
    const PartKernel kernel = {"", "kernel", loop};
    const auto some = LaunchesOf(kernel, a, 4, 2, &a);
    const auto others = LaunchesOf(kernel, shifted, 4, 132, &a);
    CHECK(some.size() == others.size());
    for (size_t i = 0; i < some.size(); ++i) {
      const PartLayout& one = some[i].arguments.layout;
      const PartLayout& other = others[i].arguments.layout;
      CHECK(one.packing == other.packing && one.lanes == other.lanes);
      CHECK(one.shares == other.shares && some[i].name == others[i].name);
    }
  }
}

}  // namespace

int main() {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    TestCellsOfHugeTensors(seed);
    TestLaunchesAreWithinLimits(seed);
    TestSumsHaveOneOrder(seed);
  }
  return tofu_test::Finish("launch_part");
}
