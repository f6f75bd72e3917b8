/*!
 * \file dimension_view.h
 * \brief A tensor seen along one dimension.
 */
#pragma once

#include <cstdint>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief Count an axis, which may be negative, from the front. */
inline int PositiveAxis(const mxnet::TShape& shape, int axis) {
  const int position = axis < 0 ? axis + shape.ndim() : axis;
  CHECK(position >= 0 && position < shape.ndim())
      << "axis " << axis << " is no dimension of the shape " << shape;
  return position;
}

/*!
 * \brief A tensor as [outer][extent of one dimension][inner]. A line is the elements along that
 * dimension.
 *
 * In memory it is [outer][extent / block][inner][block]. In MXNet's plain layout, `block` is 1.
 */
struct DimensionView {
  DimensionView(const mxnet::TShape& shape, int axis) {
    const int position = PositiveAxis(shape, axis);
    extent = shape[position];
    for (int d = 0; d < shape.ndim(); ++d) {
      if (d != position) (d < position ? outer : inner) *= shape[d];
    }
  }

  int64_t num_lines() const { return outer * inner; }

  /*! \brief The number of positions that are adjacent in memory. */
  int64_t neighbours() const { return inner == 1 ? extent : block; }

  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
  int64_t block = 1;
};

}  // namespace tofu::nnvm_layer
