/*!
 * \file prepare_fetch.h
 * \brief Preparation of a fetch's records.
 */
#ifndef TOFU_CUDA_PREPARE_FETCH_H_
#define TOFU_CUDA_PREPARE_FETCH_H_

#include <cstdint>
#include <vector>

#include "core/program/piece.h"
#include "cuda/fetch_table.cuh"

namespace tofu {
namespace cuda {

constexpr int kLargestItem = 16;  // bytes that a thread accesses at once

/*! \brief A fetch: boxes in elements, row-major tensors, disjoint pieces. */
struct FetchGeometry {
  std::vector<int64_t> shape;                // of the region
  std::vector<std::vector<int64_t>> inputs;  // shapes
  std::vector<Piece> pieces;
  int element_bytes = 4;
};

/*! \brief The bytes [begin, end) of an input that pieces read. */
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/*!
 * \brief The records of a fetch, ordered by place in the output.
 *
 * Pieces with narrow rows are cut into bands, since several of them may share a cache line and
 * should be written together.
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
 * \\param alignment of all addresses in bytes, a power of two
 * \\param max_items of a piece; smaller in tests
 * \\throw std::invalid_argument for too many inputs or tiles
 */
FetchTable PrepareFetch(const FetchGeometry& geometry, int alignment,
                        int64_t max_items = (int64_t{1} << 31) - 1);

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_PREPARE_FETCH_H_
