/*!
 * \file test_prepare_fetch.cc
 * \brief The records of fetches: widths, positions and order of their items, in regions of any
 * size.
 */
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "fetch_cases.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu::Piece;
using tofu_test::Random;

using tofu_test::CoordinatesOf;
using tofu_test::ElementAt;
using tofu_test::Extents;

void TestDivider() {
  Random random(7);
  for (int i = 0; i < 200000; ++i) {
    const uint32_t divisor = static_cast<uint32_t>(random.Draw(1, (1LL << random.Draw(1, 31)) - 1));
    const uint32_t number = static_cast<uint32_t>(random.Draw(0, (1LL << 31) - 1));
    const Divider divider = MakeDivider(divisor);
    CHECK(divider.Divide(number) == number / divisor);
    const uint32_t multiple = number / divisor * divisor;
    CHECK(divider.Divide(multiple) == multiple / divisor);
    if (multiple > 0) CHECK(divider.Divide(multiple - 1) == (multiple - 1) / divisor);
  }
}

/*! \brief The bytes of an item of a copy of rows. */
int ItemBytes(const Extents& region, const Extents& input, const Extents& extent, int alignment) {
  FetchGeometry geometry;
  geometry.shape = region;
  geometry.inputs = {input};
  geometry.pieces = {{tofu::FullBox(extent), {{0, Extents(region.size(), 0)}}}};
  const FetchTable table = PrepareFetch(geometry, alignment);
  return table.pieces[0].item_bytes;
}

void TestItems() {
  CHECK(ItemBytes({64}, {64}, {64}, 16) == 16);
  CHECK(ItemBytes({64}, {64}, {64}, 8) == 8);
  CHECK(ItemBytes({63}, {64}, {63}, 16) == 4);
  CHECK(ItemBytes({8, 16}, {8, 64}, {8, 16}, 16) == 16);  // rows of 64 bytes
  CHECK(ItemBytes({8, 16}, {8, 66}, {8, 16}, 16) == 8);   // rows that begin anywhere
  CHECK(ItemBytes({8, 1}, {8, 64}, {8, 1}, 16) == 4);     // a column
  CHECK(ItemBytes({3, 4}, {3, 4}, {3, 4}, 16) == 16);     // whole tensors are one row
  CHECK(ItemBytes({3, 4}, {3, 8}, {3, 4}, 16) == 16);     // a row is one item
}

/*! \brief The offset to which an item is written. */
int64_t TargetOf(const PieceRecord& piece, unsigned item) {
  Index offset;
  LocateItems<1>(piece, piece.offset, piece.strides, &item, &offset);
  return offset;
}

/*! \brief The offset of an item in the first source. */
int64_t SourceOf(const FetchTable& table, const PieceRecord& piece, unsigned item) {
  const SourceRecord& source = table.sources[piece.first_source];
  Index offset;
  LocateItems<1>(piece, source.offset, source.strides, &item, &offset);
  return offset;
}

/*! \brief Offsets of random tiles in pieces of up to 2^43 bytes, without the memory: coordinates
 * decoded from the target offset determine the source offset. */
void TestHugePieces(uint64_t seed) {
  Random random(seed);
  FetchGeometry geometry;
  geometry.element_bytes = 1 << random.Draw(0, 3);
  const int64_t rank = random.Draw(1, 6);
  Piece piece{{}, {{0, {}}}};
  geometry.inputs.resize(1);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t bits = random.Draw(36, 40) / rank;
    const int64_t extent = random.Draw(int64_t{1} << (bits - 1), int64_t{1} << bits);
    const int64_t begin = random.Draw(0, 5);
    piece.box.push_back({begin, begin + extent});
    piece.sources[0].begin.push_back(random.Draw(0, 5));
    geometry.shape.push_back(begin + extent + random.Draw(0, 5));
    geometry.inputs[0].push_back(piece.sources[0].begin.back() + extent + random.Draw(0, 5));
  }
  geometry.pieces = {piece};
  const int64_t most_items = int64_t{1} << random.Draw(28, 30);
  const FetchTable table = PrepareFetch(geometry, 16, most_items);
  CHECK(table.pieces.size() > 1);
  for (const PieceRecord& record : table.pieces) CHECK(record.num_items <= most_items);
  for (int draw = 0; draw < 200; ++draw) {
    const auto tile = static_cast<unsigned>(random.Draw(0, table.tiles - 1));
    const auto num_pieces = static_cast<int>(table.pieces.size());
    const PieceRecord& record = table.pieces[FindPiece(table.pieces.data(), num_pieces, tile)];
    const auto in_tile = static_cast<unsigned>(random.Draw(0, kTileItems - 1));
    const unsigned item = (tile - record.first_tile) * kTileItems + in_tile;
    if (item >= record.num_items || record.num_sources == 0) continue;
    const int64_t target = TargetOf(record, item);
    const int64_t from = SourceOf(table, record, item);
    Extents at = CoordinatesOf(geometry.shape, target / geometry.element_bytes);
    for (int64_t d = 0; d < rank; ++d) at[d] -= piece.box[d].begin;
    CHECK(from ==
          ElementAt(geometry.inputs[0], piece.sources[0].begin, at) * geometry.element_bytes);
    for (int64_t d = 0; d < rank; ++d) CHECK(at[d] >= 0 && at[d] < piece.box[d].extent());
    CHECK(target % record.item_bytes == 0 && from % record.item_bytes == 0);
  }
}

/*! \brief The records of `parts` shards of columns, side by side. */
FetchTable SideBySide(int64_t parts, int64_t rows, int64_t columns) {
  FetchGeometry geometry;
  geometry.shape = {rows, parts * columns};
  geometry.inputs.assign(parts, {rows, columns});
  for (int64_t p = 0; p < parts; ++p) {
    geometry.pieces.push_back({{{0, rows}, {p * columns, (p + 1) * columns}}, {{p, {0, 0}}}});
  }
  return PrepareFetch(geometry, 16);
}

void TestNarrowRowsAreWrittenWithTheirNeighbours() {
  const int64_t band = 2 << 20;
  const FetchTable table = SideBySide(4, 1 << 18, 16);  // rows of 64 bytes, 64 MiB in all
  CHECK(table.pieces.size() >= 4 * 32);
  for (size_t i = 0; i < table.pieces.size(); ++i) {
    const PieceRecord& piece = table.pieces[i];
    CHECK(piece.first_tile == (i == 0 ? 0 : table.pieces[i - 1].first_tile) +
                                  (i == 0 ? 0 : (table.pieces[i - 1].num_items + 1023) / 1024));
    CHECK(i == 0 || table.pieces[i - 1].offset < piece.offset);
    CHECK(TargetOf(piece, piece.num_items - 1) - piece.offset < band);
    // Four neighbours are one band.
    CHECK(piece.offset == table.pieces[i / 4 * 4].offset + static_cast<int64_t>(i % 4) * 64);
  }
  CHECK(SideBySide(4, 1 << 14, 1024).pieces.size() == 4);      // rows of 4 KiB share no line
  CHECK(SideBySide(4, 1 << 13, 16).pieces.size() == 4);        // one band
  CHECK(SideBySide(2, 1 << 28, 4).pieces.size() <= 2 * 2048);  // 8 GiB
}

void TestTooManyTiles() {
  FetchGeometry geometry;
  geometry.element_bytes = 1;
  geometry.shape = {int64_t{1} << 20, (int64_t{1} << 21) + 1};  // odd rows of single bytes
  geometry.inputs = {{int64_t{1} << 20, (int64_t{1} << 21) + 2}};
  geometry.pieces = {{tofu::FullBox(geometry.shape), {{0, {0, 1}}}}};
  CHECK_THROWS(std::invalid_argument, PrepareFetch(geometry, 16), "more than 2^31 tiles");
}

void TestTooManyInputs() {
  FetchGeometry geometry;
  geometry.shape = {1};
  geometry.inputs.assign(kMaxInputs + 1, {1});
  CHECK_THROWS(std::invalid_argument, PrepareFetch(geometry, 16),
               "a fetch reads 257 arrays; on a GPU it may read 256");
}

}  // namespace

int main() {
  TestDivider();
  TestItems();
  for (uint64_t seed = 1; seed <= 100; ++seed) TestHugePieces(seed);
  TestNarrowRowsAreWrittenWithTheirNeighbours();
  TestTooManyTiles();
  TestTooManyInputs();
  return tofu_test::Finish("prepare_fetch");
}
