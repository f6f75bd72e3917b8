/*!
 * \file prepare_fetch.h
 * \brief From the boxes of a fetch to the records that its kernel reads.
 */
#ifndef TOFU_CUDA_PREPARE_FETCH_H_
#define TOFU_CUDA_PREPARE_FETCH_H_

#include <cstdint>
#include <vector>

#include "core/program/piece.h"
#include "cuda/fetch_table.cuh"

namespace tofu {
namespace cuda {

constexpr int kLargestItem = 16;  // bytes that a thread reads or writes at once

/*! \brief What is fetched. Boxes in elements, tensors row-major; pieces disjoint. */
struct FetchGeometry {
  std::vector<int64_t> shape;                // of the region
  std::vector<std::vector<int64_t>> inputs;  // their shapes
  std::vector<Piece> pieces;
  int element_bytes = 4;
};

/*! \brief The bytes [begin, end) of an input that the pieces read. */
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/*!
 * \brief The records of a fetch, in the order of their places in the output.
 *
 * Pieces of narrow rows are cut into bands, since several of them may share a line of memory: what
 * lies together is then written together.
 */
struct FetchTable {
  std::vector<PieceRecord> pieces;
  std::vector<SourceRecord> sources;
  uint32_t tiles = 0;           // of all pieces
  std::vector<ByteRange> read;  // of each input
};

Divider MakeDivider(uint32_t divisor);

/*!
 * \brief Merge dimensions, choose the size of items, cut pieces into bands, and put them in order.
 *
 * \param alignment in bytes, of the addresses of the output and of all inputs: a power of two
 * \param max_items a piece has no more; smaller in tests
 * \throw std::invalid_argument where there are more inputs or tiles than a launch may have
 */
FetchTable PrepareFetch(const FetchGeometry& geometry, int alignment,
                        int64_t max_items = (int64_t{1} << 31) - 1);

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_PREPARE_FETCH_H_
