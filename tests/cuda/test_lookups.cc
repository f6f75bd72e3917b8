/*!
 * \file test_lookups.cc
 * \brief The kernels of operators whose indices are data, thread by thread, on a part of
 * what they choose from.
 */
#include <algorithm>
#include <vector>

#include "cuda/take.cuh"
#include "part_tensor.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::Array;
using tofu_test::Tensor;

/*! \brief Rows of a part of a table, by indices of which some lie outside, and their sums. */
void TestTake(uint64_t seed) {
  Tensor t(seed);  // what is looked up
  const int64_t count = t.arguments.extent;
  Positions& at = t.arguments.positions;
  const int meaning = seed % 2 == 0 ? kClipped : kWrapped;
  at = {t.random.Draw(0, 5), t.random.Draw(1, 9), 0, count, meaning, 1, 1};
  at.whole = at.first + at.extent + t.random.Draw(0, 5);
  Array indices(count);
  std::vector<int64_t> rows(count);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t index = t.random.Draw(-20, 40);
    indices[n] = static_cast<double>(index);
    const int64_t row = at.meaning == kWrapped
                            ? ((index % at.whole) + at.whole) % at.whole
                            : std::min<int64_t>(std::max<int64_t>(index, 0), at.whole - 1);
    rows[n] = row - at.first;
  }
  const auto is_here = [&](int64_t row) { return row >= 0 && row < at.extent; };
  const auto cell = [&](int64_t line, int64_t row) {
    return (line / t.arguments.inner * at.extent + row) * t.arguments.inner +
           line % t.arguments.inner;
  };
  Array table = t.Draw(t.lines() * at.extent);
  Array taken = t.Draw(t.size()), expected(t.size());
  Array d_table = t.Draw(t.lines() * at.extent), expected_d(t.lines() * at.extent);
  Array d_out = t.Draw(t.size());
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t n = 0; n < count; ++n) {
      if (!is_here(rows[n])) continue;
      expected[t.cell(line, n)] = table[cell(line, rows[n])];
      expected_d[cell(line, rows[n])] += d_out[t.cell(line, n)];
    }
  }
  t.Run<AtPosition, Take<double>>({&table, &indices}, {&taken}, PartLoop::kLookUp);
  CHECK(taken == expected);
  Tensor rows_of_table = t;
  rows_of_table.arguments.extent = at.extent;
  rows_of_table.Run<AtPosition, TakeBackward<double>>({&d_out, &indices}, {&d_table},
                                                      PartLoop::kLookUpSorted);
  CHECK(d_table == expected_d);
}

/*! \brief A cell of each line, of which a part is here, and its gradient. */
void TestPick(uint64_t seed) {
  Tensor t(seed);
  const int64_t extent = t.arguments.extent;
  const int64_t first = t.random.Draw(0, 5);
  t.arguments.positions = {first, extent, first + extent + 3, t.lines(), kExact, 1, 1};
  Array data = t.Draw(t.size()), d_data = t.Draw(t.size()), d_out = t.Draw(t.lines());
  Array indices(t.lines()), picked = t.Draw(t.lines()), expected(t.lines()), expected_d(t.size());
  for (int64_t line = 0; line < t.lines(); ++line) {
    const int64_t index = t.random.Draw(0, first + extent + 2);
    indices[line] = static_cast<double>(index);
    if (index < first || index >= first + extent) continue;
    expected[line] = data[t.cell(line, index - first)];
    expected_d[t.cell(line, index - first)] = d_out[line];
  }
  t.Run<OnLine, PickBackward<double>>({&d_out, &indices}, {&d_data});
  CHECK(d_data == expected_d);
  t.arguments.extent = 1;
  t.Run<AtPosition, Pick<double>>({&data, &indices}, {&picked});
  CHECK(picked == expected);
}

/*! \brief Where the keys of each row begin, after all launches that sort: more indices than a block
 * sorts, some of them of other parts. */
void TestSorting(int64_t count) {
  tofu_test::Random random(static_cast<uint64_t>(count));
  PartArguments a = {};
  a.outer = 1;
  a.extent = 50;
  a.inner = 1;
  a.positions = {10, a.extent, 100, count, kExact, 1, 1};
  Array indices(static_cast<size_t>(count));
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
    tofu_test::RunThreads(shape, [&] { tofu_test::RunSorting(launch); });
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
  TestSorting(1);
  TestSorting(kSortSpan);
  TestSorting(5 * kSortSpan);

  for (uint64_t seed = 1; seed <= 8; ++seed) {
    TestTake(seed);
    TestPick(seed);
  }
  return tofu_test::Finish("lookups");
}
