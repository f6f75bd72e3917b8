/*!
 * \file by_position.cc
 * \brief one_hot and SequenceMask, where a worker has a part of the dimension whose positions they
 * compare with numbers.
 */
#include <cstdint>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/indexed_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {
namespace {

mxnet::TShape ShapeOfOneHot(const LoweredParam& param, const mxnet::TShape& indices,
                            const mxnet::TShape&) {
  std::vector<int64_t> extents(indices.begin(), indices.end());
  extents.push_back(param.positions.extent);
  return mxnet::TShape(extents.begin(), extents.end());
}

/*! \brief What one_hot writes, as [indices][depth][1]. */
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
void ComputeOneHot(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                   const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const PartView at = ViewOneHot(param, inputs, outputs);
  const std::vector<int64_t> rows = FindRows(at.positions, inputs[0]);
  MSHADOW_REAL_TYPE_SWITCH(outputs[0].type_flag_, DType, {
    const DType on = static_cast<DType>(param.on_value);
    const DType off = static_cast<DType>(param.off_value);
    MapCells(at.loop, requests[0], outputs[0].dptr<DType>(),
             [&](int64_t line, int64_t p, int64_t) { return p == rows[line] ? on : off; });
  });
}

/*! \brief data, lengths -> data, off_value from each sequence's end on */
void ComputeSequenceMask(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                         const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const PartView at = ViewSequences(param, inputs, outputs);
  std::vector<int64_t> kept(at.positions.count);
  for (int64_t n = 0; n < at.positions.count; ++n) {
    kept[n] = at.positions.CountBefore(inputs[1].dptr_, n);
  }
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* data = inputs[0].dptr<DType>();
    const DType off = static_cast<DType>(param.off_value);
    MapCells(at.loop, requests[0], outputs[0].dptr<DType>(),
             [&](int64_t line, int64_t p, int64_t i) {
               return p < kept[line / at.positions.lines] ? data[i] : off;
             });
  });
}

void RegisterParts() {
  RegisterPart("_tofu_one_hot", {"d", "t", ShapeOfOneHot}, ParsePositionsPart, ComputeOneHot,
               {{"by_position.cu", "tofu_one_hot", PartLoop::kMapLines}}, ViewOneHot);
  RegisterPart("_tofu_sequence_mask", {"di", "d"}, ParsePositionsPart, ComputeSequenceMask,
               {{"by_position.cu", "tofu_sequence_mask", PartLoop::kMapLines}}, ViewSequences);
}

[[maybe_unused]] const bool kRegistered = (RegisterParts(), true);

}  // namespace
}  // namespace nnvm_layer
}  // namespace tofu
