/*!
 * \file fetch_table.cuh
 * \brief A fetch as records for its kernel (made by prepare_fetch.h), and the addresses of items.
 *
 * An item is what a thread moves at once: 1, 2, 4, 8 or 16 bytes, one or more elements. A piece has
 * fewer than 2^31 items, so positions in it are 32-bit numbers. Offsets are 64-bit numbers of
 * bytes. Dimensions are counted from the innermost.
 */
#pragma once

#include "portable.cuh"

namespace tofu::cuda {

constexpr int kMaxDims = 6;
constexpr int kMaxInputs = 256;  // their addresses are kernel arguments, which are limited to 4 KiB
constexpr int kFetchThreads = 256;
constexpr int kItemsPerThread = 4;
constexpr unsigned kTileItems = kFetchThreads * kItemsPerThread;  // of a block

/*!
 * \brief Division of numbers below 2^31 by a constant, as a multiplication and a shift.
 *
 * Granlund and Montgomery, "Division by invariant integers using multiplication" (1994). The
 * multiplier has 33 bits, of which the highest is implied.
 */
struct Divider {
  unsigned divisor;
  unsigned multiplier;
  unsigned shift;

  TOFU_DEVICE unsigned Divide(unsigned number) const {
    return (MultiplyHigh(number, multiplier) + number) >> shift;
  }
};

/*! \brief An input of a piece: offset of its first element, and strides. */
struct SourceRecord {
  Index offset;
  Index strides[kMaxDims];
  Index input;
};

/*! \brief A box of the output, of rank 1 or more, and its sources. Without sources it is filled. */
struct PieceRecord {
  Index offset;
  Index strides[kMaxDims];
  Divider extents[kMaxDims];
  unsigned num_items;
  unsigned first_tile;
  int rank;
  int item_bytes;
  int first_source;
  int num_sources;
};

/*! \brief The argument of the kernels. Pieces are ordered by their tiles. */
struct FetchArguments {
  char* output;
  const PieceRecord* pieces;
  const SourceRecord* sources;
  double fill;
  int num_pieces;
  int adds;     // to the content of the output
  int reducer;  // of the sources: core's Reducer
  const char* inputs[kMaxInputs];
};

/*!
 * \brief Locate items of a piece in the output or in a source: offsets in bytes, from the `first`
 * offset and the strides.
 *
 * The items of a thread are located together, so that each dimension's record is read once, and a
 * piece of low rank costs few instructions.
 */
template <int kCount>
TOFU_DEVICE void LocateItems(const PieceRecord& piece, Index first, const Index* strides,
                             const unsigned* items, Index* offsets) {
  unsigned rest[kCount];
  TOFU_UNROLL
  for (int i = 0; i < kCount; ++i) {
    rest[i] = items[i];
    offsets[i] = first;
  }
  const int outermost = piece.rank - 1;
  TOFU_ROLLED
  for (int d = 0; d < outermost; ++d) {
    const Divider extent = piece.extents[d];
    const Index stride = strides[d];
    TOFU_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const unsigned above = extent.Divide(rest[i]);
      offsets[i] += (rest[i] - above * extent.divisor) * stride;
      rest[i] = above;
    }
  }
  const Index stride = strides[outermost];
  TOFU_UNROLL
  for (int i = 0; i < kCount; ++i) offsets[i] += rest[i] * stride;
}

/*! \brief Return the piece of a tile: the last one that does not begin after it. */
TOFU_DEVICE int FindPiece(const PieceRecord* pieces, int num_pieces, unsigned tile) {
  int low = 0;
  for (int high = num_pieces; high - low > 1;) {
    const int middle = low + (high - low) / 2;
    (pieces[middle].first_tile <= tile ? low : high) = middle;
  }
  return low;
}

}  // namespace tofu::cuda
