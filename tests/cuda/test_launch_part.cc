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
    CHECK(at.other() == other);
    CHECK(at.cell() == (other / a.inner * a.extent + position) * a.inner + other % a.inner);
    if (other / step > 20) break;
  }
  const Index line = random.Draw(0, a.outer * a.inner - 1);
  const Index last = a.extent - 1;
  const OnLine on(a, line, last, 1);
  CHECK(on.is_inside() && on.other() == last);
  CHECK(on.cell() == (line / a.inner * a.extent + last) * a.inner + line % a.inner);
}

/*! \brief What GPUs allow, for tensors of any size; no tensor without cells is launched. */
void TestLaunchesAreWithinLimits(uint64_t seed) {
  Random random(seed);
  PartArguments a = {};
  a.outer = random.Draw(0, int64_t{1} << random.Draw(0, 15));
  a.extent = random.Draw(1, int64_t{1} << random.Draw(0, 22));
  a.inner = random.Draw(1, int64_t{1} << random.Draw(0, 22));
  for (PartLoop loop : {PartLoop::kReducePositions, PartLoop::kMapPositions, PartLoop::kReduceLines,
                        PartLoop::kMapLines}) {
    const bool reduces = loop == PartLoop::kReducePositions || loop == PartLoop::kReduceLines;
    const KernelLaunch launch = ShapeLaunch(loop, a, 132);
    CHECK((launch.blocks == 0) == (a.outer == 0));
    CHECK(launch.blocks <= 65535 && launch.blocks_y >= 1 && launch.blocks_y <= 65535);
    CHECK(!reduces || launch.blocks_y == 1);
    CHECK(launch.threads == kPartThreads);
  }
}

}  // namespace

int main() {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    TestCellsOfHugeTensors(seed);
    TestLaunchesAreWithinLimits(seed);
  }
  return tofu_test::Finish("launch_part");
}
