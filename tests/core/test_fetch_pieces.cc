/*!
 * \file test_fetch_pieces.cc
 * \brief Pieces are disjoint, inside the fetch, and sum exactly the added boxes.
 */
#include <map>

#include "check.h"
#include "core/program/fetch_pieces.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)
using tofu_test::Cell;
using tofu_test::CellsOf;
using tofu_test::Random;

Box DrawBox(Random* random, const Box& inside) {
  Box box;
  for (const Interval& interval : inside) {
    const int64_t begin = random->Draw(interval.begin, interval.end - 1);
    box.push_back({begin, random->Draw(begin + 1, interval.end)});
  }
  return box;
}

/*! \brief Element of the fetch -> its addends: (input, element of that input's array). */
using Contributions = std::map<Cell, std::set<std::pair<int64_t, Cell>>>;

Contributions ReadBack(const ProgramNode& fetch) {
  Contributions found;
  for (const Piece& piece : fetch.pieces) {
    for (size_t d = 0; d < piece.box.size(); ++d) {
      CHECK(piece.box[d].extent() > 0);
      CHECK(Contains({0, fetch.shapes[0][d]}, piece.box[d]));
    }
    for (const Cell& cell : CellsOf(piece.box.data(), static_cast<int>(piece.box.size()))) {
      CHECK(found.count(cell) == 0);
      for (const Source& source : piece.sources) {
        CHECK(FindWrongDimensions(source, piece.box).empty());
        Cell from = source.begin;
        for (size_t d = 0; d < from.size(); ++d) {
          const int64_t at = source.Along(d);
          if (at != kNoDimension) from[d] += cell[at] - piece.box[at].begin;
        }
        CHECK(found[cell].emplace(source.input, from).second);
      }
    }
  }
  return found;
}

void TestRandomBoxes() {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    Box region;
    for (int64_t d = random.Draw(1, 3); d > 0; --d) {
      const int64_t begin = random.Draw(-2, 2);
      region.push_back({begin, begin + random.Draw(1, 5)});
    }
    const int rank = static_cast<int>(region.size());
    FetchPieces pieces(region.data(), rank);
    Contributions expected;
    const int64_t count = random.Draw(0, 5);
    for (int64_t input = 0; input < count; ++input) {
      const Box box = random.Draw(0, 2) == 0 ? region : DrawBox(&random, region);
      Box whole = box;
      for (Interval& interval : whole) interval.begin -= random.Draw(0, 2);
      pieces.Add(box.data(), {input, 0}, whole.data());
      for (const Cell& cell : CellsOf(box.data(), rank)) {
        Cell to = cell;
        Cell from = cell;
        for (int d = 0; d < rank; ++d) {
          to[d] -= region[d].begin;
          from[d] -= whole[d].begin;
        }
        expected[to].emplace(input, from);
      }
    }
    ProgramNode fetch;
    pieces.MoveTo(&fetch);
    CHECK(ReadBack(fetch) == expected);
    CHECK(static_cast<int64_t>(fetch.inputs.size()) == count);
  }
}

/*! \brief The box with the interval [begin, begin + 1) inserted at dimension `at`, if any. */
Box WithCell(Box box, int at, int64_t begin) {
  if (at >= 0) box.insert(box.begin() + at, {begin, begin + 1});
  return box;
}

Cell Without(Cell cell, int at) {
  if (at >= 0) cell.erase(cell.begin() + at);
  return cell;
}

/*! \brief Source and target may each lack a dimension of the movement. */
void TestMovements() {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    Movement movement;
    const int rank = static_cast<int>(random.Draw(2, 4));
    for (int d = 0; d < rank; ++d) movement.distance.push_back(random.Draw(-2, 2));
    movement.source_lacks = static_cast<int>(random.Draw(-1, rank - 1));
    movement.target_lacks = static_cast<int>(random.Draw(-1, rank - 1));
    Box source;
    Box target;
    for (int d = 0; d < rank; ++d) {
      const int64_t begin = random.Draw(-2, 2);
      const Interval interval = {begin, begin + random.Draw(1, 5)};
      const Interval other = {begin + random.Draw(-1, 1), begin + random.Draw(2, 6)};
      if (d != movement.source_lacks) source.push_back(Shift(interval, -movement.distance[d]));
      if (d != movement.target_lacks) target.push_back(other);
    }
    const Box whole = movement.Move(source.data());
    const Box wide = movement.Widen(target.data());
    CHECK(IsEqualBox(wide.data(), WithCell(target, movement.target_lacks, 0).data(), rank));
    CHECK(movement.Narrow(wide) == target);
    Box moved(rank);
    FetchPieces pieces(target.data(), static_cast<int>(target.size()));
    Contributions expected;
    if (Intersect(whole.data(), wide.data(), rank, moved.data())) {
      pieces.Add(moved, {0, 0}, whole, movement);
      for (const Cell& cell : CellsOf(moved.data(), rank)) {
        Cell to = cell;
        Cell from = cell;
        for (int d = 0; d < rank; ++d) {
          to[d] -= wide[d].begin;
          from[d] -= whole[d].begin;
        }
        expected[Without(to, movement.target_lacks)].emplace(0,
                                                             Without(from, movement.source_lacks));
      }
    }
    ProgramNode fetch;
    pieces.MoveTo(&fetch);
    CHECK(ReadBack(fetch) == expected);
  }
}

}  // namespace

int main() {
  TestRandomBoxes();
  TestMovements();
  return tofu_test::Finish("fetch_pieces");
}
