/*!
 * \file strided_piece.h
 * \brief A piece as offsets and strides into row-major arrays, for kernels on CPUs and GPUs. It can
 * be computed once the shapes of the inputs are known.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/program/piece.h"

namespace tofu {

/*! \brief An extent, and its strides in the output and in each source. */
struct StridedDimension {
  int64_t extent;
  std::vector<int64_t> strides;
};

struct StridedPiece {
  std::vector<int64_t> offsets;  // offset of the first element in the output and in each source
  std::vector<StridedDimension> dimensions;  // innermost first, without dimensions of extent 1

  int64_t num_cells() const {
    int64_t cells = 1;
    for (const StridedDimension& dimension : dimensions) cells *= dimension.extent;
    return cells;
  }
};

/*! \brief Drop dimensions of extent 1, and join dimensions that are contiguous in every array. */
inline void MergeDimensions(std::vector<StridedDimension>* dimensions) {
  std::vector<StridedDimension> merged;
  for (StridedDimension& dimension : *dimensions) {
    if (dimension.extent == 1) continue;
    bool goes_on = !merged.empty();
    for (size_t a = 0; goes_on && a < dimension.strides.size(); ++a) {
      goes_on = dimension.strides[a] == merged.back().strides[a] * merged.back().extent;
    }
    if (goes_on) {
      merged.back().extent *= dimension.extent;
    } else {
      merged.push_back(std::move(dimension));
    }
  }
  *dimensions = std::move(merged);
}

/*!
 * \brief Compute the offsets and strides of a piece in its output and sources.
 * \param shape the output's shape, of any type with extents at [d]
 * \param shape_of function that returns the shape of input i
 * \param element the unit of offsets and strides: 1 for elements, or the bytes of an element
 */
template <typename Shape, typename ShapeOf>
StridedPiece MakeStridedPiece(const Piece& piece, const Shape& shape, const ShapeOf& shape_of,
                              int64_t element) {
  StridedPiece strided;
  for (size_t d = piece.box.size(); d-- > 0;) {
    strided.dimensions.push_back({piece.box[d].extent(), {}});
    strided.dimensions.back().strides.reserve(piece.sources.size() + 1);
  }
  strided.offsets.reserve(piece.sources.size() + 1);
  const auto add = [&](const Shape& extents, size_t rank, const auto& begin, const auto& along) {
    int64_t offset = 0;
    int64_t stride = element;
    for (StridedDimension& dimension : strided.dimensions) dimension.strides.push_back(0);
    for (size_t d = rank; d-- > 0;) {
      const int64_t at = along(d);
      if (at != kNoDimension) strided.dimensions[piece.box.size() - 1 - at].strides.back() = stride;
      offset += begin(d) * stride;
      stride *= extents[d];
    }
    strided.offsets.push_back(offset);
  };
  add(
      shape, piece.box.size(), [&](size_t d) { return piece.box[d].begin; },
      [](size_t d) { return static_cast<int64_t>(d); });
  for (const Source& source : piece.sources) {
    add(
        shape_of(source.input), source.begin.size(), [&](size_t d) { return source.begin[d]; },
        [&](size_t d) { return source.Along(d); });
  }
  MergeDimensions(&strided.dimensions);
  return strided;
}

}  // namespace tofu
