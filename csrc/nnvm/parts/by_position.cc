/*!
 * \file by_position.cc
 * \brief one_hot and SequenceMask for a part of the dimension. They compare its positions with
 * numbers.
 */
#include <cstdint>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/indexed_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

mxnet::TShape ShapeOfOneHot(const LoweredParam& param, const mxnet::TShape& indices,
                            const mxnet::TShape&) {
  std::vector<int64_t> extents(indices.begin(), indices.end());
  extents.push_back(param.positions.extent);
  return mxnet::TShape(extents.begin(), extents.end());
}

/*! \brief The output of one_hot, as [indices][depth][1]. */
PartView ViewOneHot(const LoweredParam& param, const Blobs& inputs, const Blobs& outputs) {
  const DimensionView view(outputs[0].shape_, -1);
  return {view, DescribeIndices(param, view, inputs[0])};
}

/*! \brief Sequences, as [outer][time][inner], and their lengths. */
PartView ViewSequences(const LoweredParam& param, const Blobs& inputs, const Blobs&) {
  const DimensionView view(inputs[0].shape_, param.axis);
  return {view, DescribeIndices(param, view, inputs[1])};
}

/*! \brief indices -> on_value at each, off_value elsewhere */
void ComputeOneHot(const PartCall& call) {
  const std::vector<int64_t> rows = FindRows(call.positions, call.inputs[0]);
  MSHADOW_REAL_TYPE_SWITCH(call.outputs[0].type_flag_, DType, {
    const DType on = static_cast<DType>(call.param.on_value);
    const DType off = static_cast<DType>(call.param.off_value);
    call.MapCells<DType>(
        [&](int64_t line, int64_t p, int64_t) { return p == rows[line] ? on : off; });
  });
}

/*! \brief data, lengths -> data, off_value from each sequence's end on */
void ComputeSequenceMask(const PartCall& call) {
  std::vector<int64_t> kept(call.positions.count);
  for (int64_t n = 0; n < call.positions.count; ++n) {
    kept[n] = call.positions.CountBefore(call.inputs[1].dptr_, n);
  }
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* data = call.Input<DType>(0);
    const DType off = static_cast<DType>(call.param.off_value);
    call.MapCells<DType>([&](int64_t line, int64_t p, int64_t i) {
      return p < kept[line / call.positions.lines] ? data[i] : off;
    });
  });
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"by_position.cu", 0},
    {{"_tofu_one_hot", {"d", "t", ShapeOfOneHot}, ComputeOneHot, PartLoop::kMapLines, ViewOneHot},
     {"_tofu_sequence_mask",
      {"di", "d"},
      ComputeSequenceMask,
      PartLoop::kMapLines,
      ViewSequences}});

}  // namespace
}  // namespace tofu::nnvm_layer
