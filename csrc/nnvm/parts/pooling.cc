/*!
 * \file pooling.cc
 * \brief Division of a window's sum by its number of elements, along one dimension, for average
 * pooling.
 *
 * A window of `kernel` elements begins at (first + position) * stride - pad. Only elements in
 * [begin, end) count. `first` is where the worker's part begins.
 */
#include <algorithm>
#include <utility>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

/*! \brief data -> data / elements of the window */
void ComputeDivide(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const DType* data = call.Input<DType>(0);
    call.MapCells<DType>([&](int64_t, int64_t p, int64_t i) {
      return static_cast<Real>(data[i]) / static_cast<Real>(call.param.window.CountCells(p));
    });
  });
}

[[maybe_unused]] const bool kRegistered =
    RegisterParts({"pooling.cu", 2},
                  {{"_tofu_divide_by_window", {"d", "d"}, ComputeDivide, PartLoop::kMapPositions}});
[[maybe_unused]] const bool kInPlace = AllowInPlace({"_tofu_divide_by_window"});

}  // namespace
}  // namespace tofu::nnvm_layer
