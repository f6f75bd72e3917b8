/*!
 * \file test_launch_part.cc
 * \brief Launches of the kernels of lowered operators, for tensors of any size.
 */
#include <cstdint>
#include <vector>

#include "../core/check.h"
#include "cuda/group_loops.cuh"
#include "cuda/launch_part.h"
#include "cuda/sort_positions.cuh"
#include "emulation.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::Random;

/*! \brief Positions and lines of tensors of up to 2^45 elements, without their memory. */
void TestElementsOfHugeTensors(uint64_t seed) {
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

/*! \brief Launches stay within the limits of GPUs; empty tensors are not launched. */
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

/*! \brief The same blocks share a sum on every GPU and at every address. */
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
      const PartLayout& first = some[i].arguments.layout;
      const PartLayout& second = others[i].arguments.layout;
      CHECK(first.packing == second.packing && first.lanes == second.lanes);
      CHECK(first.shares == second.shares && some[i].name == others[i].name);
    }
  }
}

/*! \brief A thread of a launch that sorts indices. */
void Sort(const PartLaunch& launch) {
  if (launch.name == "tofu_sort_block") SortBlocks(launch.arguments);
  if (launch.name == "tofu_sort_apart") SortApart(launch.arguments);
  if (launch.name == "tofu_find_rows") FindRows(launch.arguments);
}

/*! \brief The keys of each row after all launches that sort; some indices are of other parts. */
void TestSorting(int64_t count) {
  Random random(static_cast<uint64_t>(count));
  PartArguments a = {};
  a.outer = 1;
  a.extent = 50;
  a.inner = 1;
  a.positions = {10, a.extent, 100, count, kExact, 1, 1};
  std::vector<double> indices(static_cast<size_t>(count));
  for (double& index : indices) index = static_cast<double>(random.Draw(0, 99));
  a.tensors[1] = indices.data();
  a.num_inputs = 2;
  const PartKernel kernel = {"take.cu", "tofu_take_backward", PartLoop::kLookUpSorted};
  std::vector<Index> scratch(ScratchBytesOf(kernel, a, 8) / sizeof(Index));
  Sorting sorting = {};
  for (const PartLaunch& launch : LaunchesOf(kernel, a, 8, 2, scratch.data())) {
    sorting = launch.arguments.sorting;
    if (launch.name.compare(0, 10, "tofu_take_") == 0) continue;
    const tofu_test::LaunchShape shape = {launch.blocks, 1, kPartThreads,
                                          launch.arguments.layout.waits != 0};
    tofu_test::RunThreads(shape, [&] { Sort(launch); });
  }
  Index at = 0;
  for (Index row = 0; row < a.extent; ++row) {
    CHECK(sorting.begins[row] == at);
    for (int64_t n = 0; n < count; ++n) {
      if (indices[static_cast<size_t>(n)] != static_cast<double>(row + 10)) continue;
      CHECK(IndexOfKey(sorting.keys[at++]) == n);
    }
  }
  CHECK(sorting.begins[a.extent] == at);
}

}  // namespace

int main() {
  for (int64_t count : {1, kSortSpan, 5 * kSortSpan}) TestSorting(count);
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    TestElementsOfHugeTensors(seed);
    TestLaunchesAreWithinLimits(seed);
    TestSumsHaveOneOrder(seed);
  }
  return tofu_test::Finish("launch_part");
}
