/*!
 * \file indexed_view.h
 * \brief Indices into a dimension.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {

/*! \brief Describe indices into the part of a dimension in `view`. If they are fewer than the
 * lines, adjacent lines share an index. */
inline cuda::Positions DescribeIndices(const LoweredParam& param, const DimensionView& view,
                                       const TBlob& indices) {
  cuda::Positions positions = param.positions;
  positions.extent = view.extent;
  positions.count = static_cast<int64_t>(indices.Size());
  positions.type = indices.type_flag_;
  positions.lines = std::max<int64_t>(1, view.num_lines() / std::max<int64_t>(1, positions.count));
  return positions;
}

/*! \brief The place of each index in the part, or -1 in another part. */
inline std::vector<int64_t> FindRows(const cuda::Positions& positions, const TBlob& indices) {
  std::vector<int64_t> rows(positions.count);
  for (int64_t n = 0; n < positions.count; ++n) rows[n] = positions.Locate(indices.dptr_, n);
  return rows;
}

}  // namespace tofu::nnvm_layer
