/*!
 * \file take.cc
 * \brief Embedding, take, pick and SequenceLast, and their gradients, for a part of the rows.
 *
 * An index refers to a row of the complete table. Out of range, it is clipped or wraps around. Rows
 * of other parts are zeros, because the workers' results are summed.
 */
#include <algorithm>
#include <cstdint>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/indexed_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

/*! \brief `shape` with other extents in place of `count` dimensions from `axis` on. */
mxnet::TShape Replace(const mxnet::TShape& shape, int axis, int count, const mxnet::TShape& by) {
  std::vector<int64_t> extents(shape.begin(), shape.begin() + axis);
  extents.insert(extents.end(), by.begin(), by.end());
  extents.insert(extents.end(), shape.begin() + axis + count, shape.end());
  return mxnet::TShape(extents.begin(), extents.end());
}

mxnet::TShape ShapeOfTaken(const LoweredParam& param, const mxnet::TShape& table,
                           const mxnet::TShape& indices) {
  return Replace(table, param.axis, 1, indices);
}

mxnet::TShape ShapeOfTable(const LoweredParam& param, const mxnet::TShape& taken,
                           const mxnet::TShape& indices) {
  const bool fits = param.axis + indices.ndim() <= taken.ndim() &&
                    std::equal(indices.begin(), indices.end(), taken.begin() + param.axis);
  CHECK(fits) << "there is no " << indices << " in " << taken << " from dimension " << param.axis
              << " on";
  return Replace(taken, param.axis, indices.ndim(), mxnet::TShape(1, param.positions.extent));
}

/*! \brief `shape` with one element in place of each line; the dimension may stay with extent 1. */
mxnet::TShape KeepLines(const mxnet::TShape& shape, int axis, bool stays) {
  return Replace(shape, axis, 1, mxnet::TShape(stays ? 1 : 0, 1));
}

/*! \brief Check that there is an index for each line, or for each of the lines' first dimensions.
 */
void CheckIndices(const mxnet::TShape& data, int axis, const mxnet::TShape& indices) {
  const mxnet::TShape lines = KeepLines(data, axis, false);
  const bool is_for_lines =
      indices.ndim() <= lines.ndim() && std::equal(indices.begin(), indices.end(), lines.begin());
  CHECK(is_for_lines || indices == KeepLines(data, axis, true))
      << "indices of shape " << indices << " are not one for each line of " << data
      << " along dimension " << axis;
}

mxnet::TShape ShapeOfPicked(const LoweredParam& param, const mxnet::TShape& data,
                            const mxnet::TShape& indices) {
  CheckIndices(data, PositiveAxis(data, param.axis), indices);
  return KeepLines(data, param.axis, param.keepdims);
}

mxnet::TShape ShapeOfLines(const LoweredParam& param, const mxnet::TShape& picked,
                           const mxnet::TShape& indices) {
  CHECK_LE(param.axis, picked.ndim() - (param.keepdims ? 1 : 0)) << "of " << picked;
  const mxnet::TShape data =
      Replace(picked, param.axis, param.keepdims ? 1 : 0, mxnet::TShape(1, param.positions.extent));
  CheckIndices(data, param.axis, indices);
  CHECK(picked == KeepLines(data, param.axis, param.keepdims))
      << picked << " is not one for each line of " << data << " along dimension " << param.axis;
  return data;
}

/*! \brief The result of a lookup, as [outer][indices][inner]. */
PartView ViewTaken(const LoweredParam& param, const Blobs& inputs, const Blobs&) {
  DimensionView view(inputs[0].shape_, param.axis);
  const auto positions = DescribeIndices(param, view, inputs[1]);
  view.extent = positions.count;
  return {view, positions};
}

/*! \brief One element of each line of the data, as [outer][1][inner]. */
PartView ViewPicked(const LoweredParam& param, const Blobs& inputs, const Blobs&) {
  DimensionView view(inputs[0].shape_, param.axis);
  const auto positions = DescribeIndices(param, view, inputs[1]);
  view.extent = 1;
  return {view, positions};
}

/*! \brief A gradient, as [outer][rows][inner]. */
PartView ViewRows(const LoweredParam& param, const Blobs& inputs, const Blobs& outputs) {
  const DimensionView view(outputs[0].shape_, param.axis);
  return {view, DescribeIndices(param, view, inputs[1])};
}

/*! \brief Write or add rows of the table, zeros for rows of other parts. */
template <typename DType>
void CopyRows(const PartCall& call, const std::vector<int64_t>& rows, bool add, const DType* table,
              DType* out) {
  const int64_t inner = call.view.inner, extent = call.view.extent;
#pragma omp parallel for
  for (int64_t n = 0; n < call.view.outer * extent; ++n) {
    const int64_t row = rows[n % extent];
    const DType* from = table + (n / extent * call.positions.extent + row) * inner;
    DType* to = out + n * inner;
    if (add) {
      for (int64_t i = 0; row >= 0 && i < inner; ++i) to[i] += from[i];
    } else if (row < 0) {
      std::fill_n(to, inner, DType(0));
    } else {
      std::copy_n(from, inner, to);
    }
  }
}

/*! \brief table, indices -> rows */
void ComputeTake(const PartCall& call) {
  if (call.requests[0] == mxnet::kNullOp) return;
  const std::vector<int64_t> rows = FindRows(call.positions, call.inputs[1]);
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    CopyRows(call, rows, call.requests[0] == mxnet::kAddTo, call.Input<DType>(0),
             call.outputs[0].dptr<DType>());
  });
}

/*! \brief d_out, indices -> d_table */
void ComputeTakeBackward(const PartCall& call) {
  if (call.requests[0] == mxnet::kNullOp) return;
  const std::vector<int64_t> rows = FindRows(call.positions, call.inputs[1]);
  const int64_t inner = call.view.inner;
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    if (call.requests[0] != mxnet::kAddTo) {
      std::fill_n(call.outputs[0].dptr<DType>(), call.outputs[0].Size(), DType(0));
    }
    const DType* d_out = call.Input<DType>(0);
    for (int64_t o = 0; o < call.view.outer; ++o) {
      DType* table = call.outputs[0].dptr<DType>() + o * call.view.extent * inner;
      for (int64_t n = 0; n < call.positions.count; ++n, d_out += inner) {
        for (int64_t i = 0; rows[n] >= 0 && i < inner; ++i) table[rows[n] * inner + i] += d_out[i];
      }
    }
  });
}

/*! \brief data, an index per line -> elements */
void ComputePick(const PartCall& call) {
  const std::vector<int64_t> rows = FindRows(call.positions, call.inputs[1]);
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* data = call.Input<DType>(0);
    call.MapElements<DType>(0, [&](size_t n) {
      const int64_t line = static_cast<int64_t>(n);
      const int64_t outer = line / call.view.inner;
      const int64_t found = rows[line / call.positions.lines];
      const int64_t row = outer * call.positions.extent + found;
      return found < 0 ? DType(0) : data[row * call.view.inner + line % call.view.inner];
    });
  });
}

/*! \brief d_out, an index per line -> d_data */
void ComputePickBackward(const PartCall& call) {
  const std::vector<int64_t> rows = FindRows(call.positions, call.inputs[1]);
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* d_out = call.Input<DType>(0);
    call.MapCells<DType>([&](int64_t line, int64_t p, int64_t) {
      return p == rows[line / call.positions.lines] ? d_out[line] : DType(0);
    });
  });
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"take.cu", 0},
    {{"_tofu_take", {"di", "t", ShapeOfTaken}, ComputeTake, PartLoop::kLookUp, ViewTaken},
     {"_tofu_take_backward",
      {"di", "t", ShapeOfTable},
      ComputeTakeBackward,
      PartLoop::kLookUpSorted,
      ViewRows},
     {"_tofu_pick", {"di", "t", ShapeOfPicked}, ComputePick, PartLoop::kLookUp, ViewPicked},
     {"_tofu_pick_backward",
      {"di", "t", ShapeOfLines},
      ComputePickBackward,
      PartLoop::kMapLines,
      ViewRows}});

}  // namespace
}  // namespace tofu::nnvm_layer
