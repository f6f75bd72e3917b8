/*!
 * \file by_position.cc
 * \brief one_hot and SequenceMask for a part of the dimension. They compare its positions with
 * numbers.
 */
#include "cuda/by_position.cuh"

#include "nnvm/parts/part_loops.h"

namespace tofu::nnvm_layer {
namespace {

mxnet::TShape ShapeOfOneHot(const LoweredParam& param, const mxnet::TShape& indices,
                            const mxnet::TShape&) {
  std::vector<int64_t> extents(indices.begin(), indices.end());
  extents.push_back(param.arguments.positions.extent);
  return mxnet::TShape(extents.begin(), extents.end());
}

/*! \brief The output of one_hot, as [indices][depth][1]. */
DimensionView ViewOneHot(int, const Blobs& inputs, const Blobs& outputs,
                         cuda::Positions* positions) {
  const DimensionView view(outputs[0].shape_, -1);
  DescribeIndices(view, inputs[0], positions);
  return view;
}

/*! \brief Sequences, as [outer][time][inner], and their lengths. */
DimensionView ViewSequences(int axis, const Blobs& inputs, const Blobs&,
                            cuda::Positions* positions) {
  const DimensionView view(inputs[0].shape_, axis);
  DescribeIndices(view, inputs[1], positions);
  return view;
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"by_position.cu", 0},
    {{"_tofu_one_hot", {"d", "t", ShapeOfOneHot}, kMap<cuda::OneHot, OnLine>, ViewOneHot},
     {"_tofu_sequence_mask", {"di", "d"}, kMap<cuda::SequenceMask, OnLine>, ViewSequences}});

}  // namespace
}  // namespace tofu::nnvm_layer
