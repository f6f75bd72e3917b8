/*!
 * \file pooling.cc
 * \brief What makes an average of a sum over windows: each cell divided by the cells of its window
 * that count, along one dimension.
 *
 * A window of `kernel` cells begins at (first + position) * stride - pad; those from `begin` to
 * `end`, exclusive, count. `first` is where a worker's part begins.
 */
#include <algorithm>
#include <utility>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {
namespace {

/*! \brief data -> data / cells of the window */
void ComputeDivide(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                   const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis);
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* data = inputs[0].dptr<DType>();
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [&](int64_t, int64_t p, int64_t i) {
      return static_cast<Real>(data[i]) / static_cast<Real>(param.window.CountCells(p));
    });
  });
}

[[maybe_unused]] const bool kRegistered =
    (RegisterPart("_tofu_divide_by_window", {"d", "d"}, ParsePoolingPart, ComputeDivide,
                  {{"pooling.cu", "tofu_divide_by_window", PartLoop::kMapPositions}})
         .set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace),
     true);

}  // namespace
}  // namespace nnvm_layer
}  // namespace tofu
