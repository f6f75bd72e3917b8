/*!
 * \file test_geometry.cc
 * \brief Overlapping parts and intersections, compared with sets of elements.
 * tests/search/test_cost.py compares shards and regions.
 */
#include <map>
#include <stdexcept>
#include <utility>

#include "check.h"
#include "core/geometry/box_index.h"
#include "core/geometry/geometry.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)
using tofu_test::Cell;
using tofu_test::Cells;
using tofu_test::CellsOf;
using tofu_test::Random;

/*! \brief An axis can be split once all parts of those that it is nested in have extent 1. */
void TestNestings() {
  const WorkerGrid grid({2, 2, 2});
  const SplitRules rules = {false, {}, {{1, 0}, {2, 0}, {2, 1}}};
  CHECK(SplittableDimensions({2, 2, 8, 4}, grid, {}, rules) == std::vector<int>({0, 3}));
  CHECK(SplittableDimensions({2, 2, 8, 4}, grid, {0}, rules) == std::vector<int>({1, 3}));
  CHECK(SplittableDimensions({2, 2, 8, 4}, grid, {0, 1}, rules) == std::vector<int>({2, 3}));
  CHECK(SplittableDimensions({1, 2, 8, 4}, grid, {1}, rules) == std::vector<int>({2, 3}));
  // One of two parts of three elements has two of them.
  CHECK(SplittableDimensions({3, 4, 8}, grid, {0}, rules) == std::vector<int>());
  CHECK_THROWS(std::invalid_argument, CheckChoice("x", {2, 4}, grid, {1, 0}, rules),
               "nested in 0, which has parts of several elements");
}

/*! \brief Overlapping parts have one extent and cover the whole; own boxes are disjoint. */
void TestOverlappingParts() {
  for (int64_t extent = 8; extent <= 40; ++extent) {
    for (const std::vector<int64_t>& factors :
         {std::vector<int64_t>{3}, {8}, {2, 3}, {3, 2}, {2, 2, 2}}) {
      const WorkerGrid grid(factors);
      const std::vector<int> choice(factors.size(), 0);
      const Boxes parts = SplitBoxes({extent}, grid, choice, true);
      const Boxes own = OwnBoxes(parts);
      const int64_t longest = (extent + grid.num_workers() - 1) / grid.num_workers();
      int64_t next = 0;
      for (int worker = 0; worker < grid.num_workers(); ++worker) {
        const Interval part = parts[worker][0];
        CHECK(part.extent() == longest);
        CHECK(Contains({0, extent}, part) && Contains(part, own[worker][0]));
        CHECK(own[worker][0].begin == next && own[worker][0].extent() > 0);
        next = own[worker][0].end;
        if (!HasRest({extent}, grid, choice)) CHECK(own[worker][0] == part);
      }
      CHECK(next == extent);
      CHECK(HasRest({extent}, grid, choice) == (extent % grid.num_workers() != 0));
    }
  }
  const WorkerGrid grid({3, 2});
  CHECK(SplittableDimensions({7, 6, 4}, grid, {}, {true, {2}, {}}) == std::vector<int>({1, 2}));
  CheckChoice("x", {7, 6, 4}, grid, {0, 1}, {true, {0}, {}});
  CHECK_THROWS(std::invalid_argument, CheckChoice("x", {7, 6, 2}, grid, {2, 1}, {true, {2}, {}}),
               "3 parts are asked for");
}

void TestIntersections() {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    Box a(2);
    Box b(2);
    for (int d = 0; d < 2; ++d) {
      a[d].begin = random.Draw(-2, 4);
      a[d].end = a[d].begin + random.Draw(0, 4);
      b[d].begin = random.Draw(-2, 4);
      b[d].end = b[d].begin + random.Draw(0, 4);
    }
    const Cells of_a = CellsOf(a.data(), 2);
    const Cells of_b = CellsOf(b.data(), 2);
    Cells common;
    for (const Cell& cell : of_a) {
      if (of_b.count(cell) != 0) common.insert(cell);
    }
    CHECK(IntersectionVolume(a.data(), b.data(), 2) == static_cast<int64_t>(common.size()));
    CHECK(Meet(a, b) == !common.empty());
    CHECK(IsEmptyBox(a.data(), 2) == of_a.empty());
    Box overlap(2);
    CHECK(Intersect(a.data(), b.data(), 2, overlap.data()) == !common.empty());
    CHECK(CellsOf(overlap.data(), 2) == common);
    CHECK((Contains(b[0], a[0]) && Contains(b[1], a[1])) <= (common == of_a));
    std::vector<Box> rest;
    Subtract(a, b, &rest);
    for (const Box& box : rest) {
      for (const Cell& cell : CellsOf(box.data(), 2)) CHECK(common.insert(cell).second);
    }
    CHECK(common == of_a);  // the intersection and the rest, each element once
  }
}

/*! \brief Compare tilings and random boxes with a count of every element. */
void TestCoverage() {
  Random random(11);
  const std::vector<int64_t> shape = {4, 5};
  int even = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    Boxes boxes(8, 2);
    std::vector<int> numbers;
    const int num_numbers = random.Draw(0, 1) == 0 ? 1 : 2;
    const bool is_tiling = random.Draw(0, 1) == 0;
    const int64_t middle = random.Draw(1, 4);
    for (int worker = 0; worker < 8; ++worker) {
      numbers.push_back(worker % num_numbers);
      const int64_t begin = random.Draw(0, 5);
      boxes[worker][0] = {0, 4};
      boxes[worker][1] = {begin, random.Draw(begin, 5)};
      if (is_tiling) boxes[worker][1] = worker < 4 ? Interval{0, middle} : Interval{middle, 5};
    }
    std::map<std::pair<int, Cell>, int64_t> counts;
    for (int worker = 0; worker < 8; ++worker) {
      for (const Cell& cell : CellsOf(boxes[worker], 2)) ++counts[{numbers[worker], cell}];
    }
    int64_t expected = counts.size() == num_numbers * 20u ? counts.begin()->second : 0;
    for (const auto& [cell, count] : counts) expected = count == expected ? expected : 0;
    CHECK(CountCoverage(boxes, numbers, shape) == expected);
    even += expected > 0;
  }
  CHECK(even > 500);
}

Box DrawBox(Random* random, int rank) {
  Box box(rank);
  for (Interval& interval : box) {
    const int64_t begin = random->Draw(-3, 8);
    interval = {begin, random->Draw(begin, 10)};
  }
  return box;
}

// Boxes of 12 workers: parts of a tensor, parts with a border, or random ones.
Boxes DrawBoxes(Random* random) {
  const WorkerGrid grid({3, 2, 2});
  const int rank = static_cast<int>(random->Draw(0, 3));
  std::vector<int64_t> shape;
  std::vector<int> choice(3, kReplicated);
  for (int d = 0; d < rank; ++d) shape.push_back(random->Draw(6, 9));
  for (int& one : choice) one = static_cast<int>(random->Draw(kReplicated, rank - 1));
  Boxes boxes = SplitBoxes(shape, grid, choice, random->Draw(0, 1) == 0);
  const int64_t kind = random->Draw(0, 2);
  for (int worker = 0; worker < boxes.count(); ++worker) {
    for (int d = 0; d < rank; ++d) {
      if (kind == 0) boxes[worker][d] = DrawBox(random, 1)[0];
      if (kind == 1) boxes[worker][d].end += d + 1;
    }
  }
  return boxes;
}

// Compare the boxes that an index finds with all boxes.
void TestIndex() {
  Random random(13);
  int several = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const Boxes boxes = DrawBoxes(&random);
    const Box wanted = DrawBox(&random, boxes.rank());
    std::vector<int> met;
    for (int worker = 0; worker < boxes.count(); ++worker) {
      const int64_t volume = IntersectionVolume(wanted.data(), boxes[worker], boxes.rank());
      if (volume > 0) met.push_back(worker);
    }
    CHECK(BoxIndex(boxes).Find(wanted.data()) == met);
    several += met.size() > 1 && met.size() < 12;
  }
  CHECK(several > 300);
}

}  // namespace

int main() {
  TestOverlappingParts();
  TestNestings();
  TestIntersections();
  TestCoverage();
  TestIndex();
  return tofu_test::Finish("geometry");
}
