/*!
 * \file test_mini_buckets.cc
 * \brief Bounds of mini-buckets, compared with exhaustive elimination.
 */
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/bounds/alike.h"
#include "core/bounds/message_passing.h"
#include "core/bounds/mini_buckets.h"
#include "draw_pairwise.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)
using tofu_test::DrawProblem;
using tofu_test::Least;
using tofu_test::LeastBytesWith;
using tofu_test::NaturalOrder;
using tofu_test::Random;

/*! \brief A `scale` of 2^27 makes bytes that the tables round. */
void CheckMiniBuckets(uint64_t seed, size_t max_entries, int64_t scale) {
  PairwiseProblem problem = DrawProblem(seed);
  for (std::vector<Weight>& unary : problem.unary) {
    for (Weight& weight : unary) weight = MakeWeight(WeightBytes(weight) * scale, 0);
  }
  for (PairTable& pair : problem.pairs) {
    auto scaled = std::make_shared<ByteMatrix>(*pair.bytes);
    for (int64_t& bytes : scaled->entries) bytes *= scale;
    pair.bytes = scaled;
  }
  const int64_t least = WeightBytes(Least(problem));
  const MiniBucketBound found =
      BoundByMiniBuckets(problem, 1000 * scale, max_entries, [](double, size_t) {});
  CHECK(found.bytes <= least);
  CHECK(found.largest_table <= std::max<size_t>(max_entries, 3));
  if (max_entries == kMaxTableEntries && scale == 1) CHECK(found.bytes == least);
  for (int v = 0; v < problem.size(); ++v) {
    for (int x = 0; x < 3; ++x) {
      const int64_t least_with_it = LeastBytesWith(problem, v, x);
      CHECK(found.bytes + found.excess[v][x] <= least_with_it);
      if (max_entries == kMaxTableEntries && scale == 1)
        CHECK(found.bytes + found.excess[v][x] == least_with_it);
    }
  }
}

void TestMiniBucketsBoundEveryValue() {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    for (size_t max_entries : {size_t{3}, size_t{9}, size_t{27}, kMaxTableEntries}) {
      CheckMiniBuckets(seed, max_entries, 1);
      CheckMiniBuckets(seed, max_entries, int64_t{1} << 27);
    }
  }
}

/*! \brief `count` squares in a row, each connected to the next, all of the same four tables. */
PairwiseProblem DrawSquares(uint64_t seed, int count) {
  Random random(seed);
  PairwiseProblem problem;
  std::vector<SharedMatrix> tables;
  for (int t = 0; t < 4; ++t) {
    auto bytes = std::make_shared<ByteMatrix>();
    bytes->rows = bytes->columns = 3;
    for (int i = 0; i < 9; ++i) bytes->entries.push_back(random.Draw(0, 50));
    tables.push_back(bytes);
  }
  for (int square = 0; square < count; ++square) {
    const int a = problem.size();
    for (int v = 0; v < 4; ++v) problem.unary.emplace_back(3, Weight{0});
    for (int side = 0; side < 3; ++side)
      problem.pairs.push_back({a + side, a + side + 1, tables[side]});
    problem.pairs.push_back({a, a + 3, tables[3]});
    if (square > 0) problem.pairs.push_back({a - 2, a, tables[0]});
    if (square > 0) problem.pairs.push_back({a - 1, a + 1, tables[1]});
  }
  return problem;
}

void TestBoundsOfRepeatedParts() {
  constexpr int kSquares = 6;
  const std::vector<int> alike = FindAlike(DrawSquares(1, kSquares), 1);
  for (int v = 0; v < 4; ++v) {
    CHECK(alike[4 + v] == alike[12 + v]);
    CHECK(v == 0 || alike[4 + v] != alike[4]);
  }
  CHECK(alike[0] != alike[4]);  // the first square has no predecessor
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const PairwiseProblem problem = DrawSquares(seed, kSquares);
    MessagePassing messages(problem, {}, NaturalOrder(problem));
    messages.Sweep();
    messages.Average(FindAlike(problem, 1));
    PairwiseProblem spread;
    const int64_t bytes = messages.Spread(&spread);
    for (size_t max_entries : {size_t{3}, size_t{9}, size_t{27}}) {
      const MiniBucketBound found =
          BoundByMiniBuckets(spread, 1000, max_entries, [](double, size_t) {});
      for (int v = 0; v < problem.size(); ++v) {
        for (int x = 0; x < 3; ++x)
          CHECK(bytes + found.bytes + found.excess[v][x] <= LeastBytesWith(problem, v, x));
      }
    }
  }
}

/*! \brief Two triangles of equal tables. One of the first's is a minimum, of a variable between two
 * corners, and has a bucket to tell; the problem has the same table between these of the other. */
void TestEqualTablesOfDifferentOriginStayApart() {
  const auto table = [](size_t rows, size_t columns, std::vector<int64_t> entries) {
    auto bytes = std::make_shared<ByteMatrix>();
    bytes->rows = rows;
    bytes->columns = columns;
    bytes->entries = std::move(entries);
    return bytes;
  };
  PairwiseProblem problem;
  const std::vector<size_t> sizes = {2, 2, 5, 2, 2, 2, 5};  // the fourth is between two corners
  for (size_t size : sizes) problem.unary.emplace_back(size, Weight{0});
  const auto equal_or_5 = table(2, 2, {0, 5, 5, 0});
  problem.pairs.push_back({0, 3, equal_or_5});
  problem.pairs.push_back({1, 3, equal_or_5});
  problem.pairs.push_back(
      {5, 4, equal_or_5});  // as the minimum comes: the inner one (bucket_blocks.h) last
  for (int corner : {0, 4}) {
    problem.pairs.push_back({corner, corner + 2, table(2, 5, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3})});
    problem.pairs.push_back({corner + 1, corner + 2, table(2, 5, {2, 7, 1, 8, 2, 8, 1, 8, 2, 8})});
  }
  const int64_t least = WeightBytes(Least(problem));
  const MiniBucketBound found =
      BoundByMiniBuckets(problem, 1000, kMaxTableEntries, [](double, size_t) {});
  CHECK(found.bytes == least);
  for (int v = 0; v < problem.size(); ++v) {
    for (int x = 0; x < static_cast<int>(sizes[v]); ++x)
      CHECK(least + found.excess[v][x] == LeastBytesWith(problem, v, x));
  }
}

}  // namespace

int main() {
  TestMiniBucketsBoundEveryValue();
  TestBoundsOfRepeatedParts();
  TestEqualTablesOfDifferentOriginStayApart();
  return tofu_test::Finish("mini_buckets");
}
