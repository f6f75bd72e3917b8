/*!
 * \file take.cc
 * \brief Embedding, take, pick and SequenceLast, and their gradients, for a part of the rows.
 *
 * An index refers to a row of the complete table. Out of range, it is clipped or wraps around. Rows
 * of other parts are zeros, because the workers' results are summed.
 */
#include "cuda/take.cuh"

#include "nnvm/parts/part_loops.h"

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
  return Replace(taken, param.axis, indices.ndim(),
                 mxnet::TShape(1, param.arguments.positions.extent));
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
  const mxnet::TShape data = Replace(picked, param.axis, param.keepdims ? 1 : 0,
                                     mxnet::TShape(1, param.arguments.positions.extent));
  CheckIndices(data, param.axis, indices);
  CHECK(picked == KeepLines(data, param.axis, param.keepdims))
      << picked << " is not one for each line of " << data << " along dimension " << param.axis;
  return data;
}

/*! \brief The result of a lookup, as [outer][indices][inner]. */
DimensionView ViewTaken(int axis, const Blobs& inputs, const Blobs&, cuda::Positions* positions) {
  DimensionView view(inputs[0].shape_, axis);
  DescribeIndices(view, inputs[1], positions);
  view.extent = positions->count;
  return view;
}

/*! \brief One element of each line of the data, as [outer][1][inner]. */
DimensionView ViewPicked(int axis, const Blobs& inputs, const Blobs&, cuda::Positions* positions) {
  DimensionView view(inputs[0].shape_, axis);
  DescribeIndices(view, inputs[1], positions);
  view.extent = 1;
  return view;
}

/*! \brief A gradient, as [outer][rows][inner]. */
DimensionView ViewRows(int axis, const Blobs& inputs, const Blobs& outputs,
                       cuda::Positions* positions) {
  const DimensionView view(outputs[0].shape_, axis);
  DescribeIndices(view, inputs[1], positions);
  return view;
}

/*! \brief The place of each index in the part, or -1 in another part. */
std::vector<int64_t> LocateRows(const PartArguments& a) {
  std::vector<int64_t> rows(a.positions.count);
  for (int64_t n = 0; n < a.positions.count; ++n) rows[n] = a.positions.Locate(a.tensors[1], n);
  return rows;
}

/*! \brief Write or add rows of the table, zeros for rows of other parts. */
template <typename DType>
void CopyRows(const PartArguments& a, const DimensionView& view, const std::vector<int64_t>& rows) {
  const bool add = a.requests[0] == cuda::kAdditionRequested;
  const int64_t inner = view.inner, extent = view.extent;
#pragma omp parallel for
  for (int64_t n = 0; n < view.outer * extent; ++n) {
    const int64_t row = rows[n % extent];
    const DType* from = a.Input<DType>(0) + (n / extent * a.positions.extent + row) * inner;
    DType* to = a.Output<DType>(0) + n * inner;
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
void ComputeTake(const PartArguments& a, const DimensionView& view, int type) {
  if (a.requests[0] == cuda::kNothingRequested) return;
  const std::vector<int64_t> rows = LocateRows(a);
  MSHADOW_REAL_TYPE_SWITCH(type, DType, { CopyRows<DType>(a, view, rows); });
}

/*! \brief d_out, indices -> d_table */
void ComputeTakeBackward(const PartArguments& a, const DimensionView& view, int type) {
  if (a.requests[0] == cuda::kNothingRequested) return;
  const std::vector<int64_t> rows = LocateRows(a);
  const int64_t inner = view.inner;
  MSHADOW_REAL_TYPE_SWITCH(type, DType, {
    DType* table = a.Output<DType>(0);
    if (a.requests[0] != cuda::kAdditionRequested) {
      std::fill_n(table, view.num_lines() * view.extent, DType(0));
    }
    const DType* d_out = a.Input<DType>(0);
    for (int64_t o = 0; o < view.outer; ++o, table += view.extent * inner) {
      for (int64_t n = 0; n < a.positions.count; ++n, d_out += inner) {
        for (int64_t i = 0; rows[n] >= 0 && i < inner; ++i) table[rows[n] * inner + i] += d_out[i];
      }
    }
  });
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"take.cu", 0},
    {{"_tofu_take", {"di", "t", ShapeOfTaken}, {ComputeTake, PartLoop::kLookUp}, ViewTaken},
     {"_tofu_take_backward",
      {"di", "t", ShapeOfTable},
      {ComputeTakeBackward, PartLoop::kLookUpSorted},
      ViewRows},
     {"_tofu_pick",
      {"di", "t", ShapeOfPicked},
      {RunMap<cuda::Pick, AtPosition>, PartLoop::kLookUp},
      ViewPicked},
     {"_tofu_pick_backward",
      {"di", "t", ShapeOfLines},
      kMap<cuda::PickBackward, OnLine>,
      ViewRows}});

}  // namespace
}  // namespace tofu::nnvm_layer
