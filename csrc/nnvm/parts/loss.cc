/*!
 * \file loss.cc
 * \brief The gradient of MakeLoss, divided by the number of valid elements on all workers, and the
 * gradient of a regression output from its differences.
 */
#include <algorithm>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

/*! \brief data -> number of elements above the threshold */
void CountValidCells(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType threshold = static_cast<DType>(call.param.valid_thresh);
    const DType* data = call.Input<DType>(0);
    const auto count = std::count_if(data, data + call.inputs[0].Size(),
                                     [=](const DType& cell) { return cell > threshold; });
    call.StoreSums(0, {static_cast<double>(count)});
  });
}

/*! \brief data, that number -> d_data, which is constant */
void ComputeGradient(const PartCall& call) {
  const double count = std::max(1.0, *call.Input<double>(1));
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const Real share = static_cast<Real>(call.param.labels.scale) / static_cast<Real>(count);
    call.MapElements<DType>(0, [=](size_t) { return share; });
  });
}

/*! \brief data -> data times a number, rounded to the data's type as MXNet does */
void Scale(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const DType* data = call.Input<DType>(0);
    const Real scale = static_cast<Real>(static_cast<DType>(call.param.labels.scale));
    call.MapElements<DType>(0, [=](size_t i) { return static_cast<Real>(data[i]) * scale; });
  });
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"loss.cu", 0},
    {{"_tofu_valid_cells", {"d", "N"}, CountValidCells, PartLoop::kReduceAll},
     {"_tofu_make_loss_gradient", {"dN", "d"}, ComputeGradient, PartLoop::kMapPositions},
     {"_tofu_scale", {"d", "d"}, Scale, PartLoop::kMapPositions}});
[[maybe_unused]] const bool kInPlace = AllowInPlace({"_tofu_scale"});

}  // namespace
}  // namespace tofu::nnvm_layer
