/*!
 * \file fetch_table.cuh
 * \brief A fetch as the kernel reads it: records of plain numbers, made once (prepare_fetch.h), and
 * the arithmetic from the number of an item to its addresses.
 *
 * An item is what a thread moves at once: 1, 2, 4, 8 or 16 bytes, one or more elements. A piece is
 * a box of fewer than 2^31 items, so that positions in it are computed in 32 bits; offsets are 64
 * bits and in bytes. Dimensions are counted from the innermost.
 */
#ifndef TOFU_CUDA_FETCH_TABLE_CUH_
#define TOFU_CUDA_FETCH_TABLE_CUH_

#include "portable.cuh"

namespace tofu {
namespace cuda {

constexpr int kMaxDims = 6;
constexpr int kMaxInputs =
    256;  // their addresses are arguments of the kernel, which are 4 KiB at most
constexpr int kFetchThreads = 256;
constexpr int kItemsPerThread = 4;
constexpr unsigned kTileItems = kFetchThreads * kItemsPerThread;  // what a block moves

/*!
 * \brief Division of numbers below 2^31 by a constant: a multiplication and a shift.
 *
 * Granlund and Montgomery, "Division by invariant integers using multiplication" (1994), with a
 * multiplier of 33 bits whose highest is implied.
 */
struct Divider {
  unsigned divisor;
  unsigned multiplier;
  unsigned shift;

  TOFU_DEVICE unsigned Divide(unsigned number) const {
    return (MultiplyHigh(number, multiplier) + number) >> shift;
  }
};

/*! \brief One input of a piece: where its first cell lies, and how far apart neighbours are. */
struct SourceRecord {
  Index offset;
  Index strides[kMaxDims];
  Index input;
};

/*! \brief A box of the output and the records of what it is made of; without any, it is filled. It
 * has one dimension or more. */
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

/*! \brief The argument of the kernels. Pieces stand in the order of their tiles. */
struct FetchArguments {
  char* output;
  const PieceRecord* pieces;
  const SourceRecord* sources;
  double fill;
  int num_pieces;
  int adds;     // to what the output holds
  int reducer;  // of the sources, one of core's Reducer
  const char* inputs[kMaxInputs];
};

/*!
 * \brief Where items of a piece lie in the output or in a source, whose `first` offset and strides
 * are given: bytes from its beginning.
 *
 * The items of a thread are located together, so that what the record says of a dimension is read
 * once for all of them, and a piece of few dimensions costs few instructions.
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

/*! \brief The piece that a tile belongs to: the last one that does not begin after it. */
TOFU_DEVICE int FindPiece(const PieceRecord* pieces, int num_pieces, unsigned tile) {
  int low = 0;
  for (int high = num_pieces; high - low > 1;) {
    const int middle = low + (high - low) / 2;
    (pieces[middle].first_tile <= tile ? low : high) = middle;
  }
  return low;
}

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_FETCH_TABLE_CUH_
