/*!
 * \file prepare_fetch.h
 * \brief Prepare the records of a fetch, which tell its kernel what to copy.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/program/piece.h"
#include "cuda/fetch_table.cuh"

namespace tofu::cuda {

constexpr int kLargestItem = 16;  // bytes that a thread accesses at once

/*! \brief A fetch as disjoint boxes in elements, over tensors in row-major order. */
struct FetchGeometry {
  std::vector<int64_t> shape;                // of the region
  std::vector<std::vector<int64_t>> inputs;  // shapes
  std::vector<Piece> pieces;
  int element_bytes = 4;
};

/*! \brief The bytes [begin, end) of an input that a fetch reads. */
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/*!
 * \brief The records of a fetch, in the order of the output.
 *
 * Pieces with narrow rows may share cache lines of the output, which should be written together. So
 * these pieces are cut into bands.
 */
struct FetchTable {
  std::vector<PieceRecord> pieces;
  std::vector<SourceRecord> sources;
  uint32_t tiles = 0;           // of all pieces
  std::vector<ByteRange> read;  // of each input
};

Divider MakeDivider(uint32_t divisor);

/*!
 * \brief Merge dimensions, choose item sizes, cut pieces into bands, and order them.
 *
 * \\param alignment bytes, a power of two, by which all addresses are divisible
 * \\param max_items the largest number of items of a piece; tests use a smaller number
 * \\throw std::invalid_argument for too many inputs or tiles
 */
FetchTable PrepareFetch(const FetchGeometry& geometry, int alignment,
                        int64_t max_items = (int64_t{1} << 31) - 1);

}  // namespace tofu::cuda
