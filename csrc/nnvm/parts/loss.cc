/*!
 * \file loss.cc
 * \brief The gradient of MakeLoss where it is divided by the number of valid cells: that number,
 * which the workers put together, and the rest from it. The gradient of a regression output from
 * its differences.
 */
#include <algorithm>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {
namespace {

/*! \brief data -> how many cells are above the threshold */
void CountValidCells(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                     const Requests& requests, const Blobs& outputs) {
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType threshold = static_cast<DType>(LoweredParamOf(attrs).valid_thresh);
    const DType* data = inputs[0].dptr<DType>();
    const auto count = std::count_if(data, data + inputs[0].Size(),
                                     [=](const DType& cell) { return cell > threshold; });
    StoreSums(requests[0], outputs[0], {static_cast<double>(count)});
  });
}

/*! \brief data, that number -> d_data, the same for every cell */
void ComputeGradient(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                     const Requests& requests, const Blobs& outputs) {
  const double count = std::max(1.0, *inputs[1].dptr<double>());
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const Real share =
        static_cast<Real>(LoweredParamOf(attrs).labels.scale) / static_cast<Real>(count);
    MapElements<DType>(requests[0], outputs[0], [=](size_t) { return share; });
  });
}

/*! \brief data -> data times a number, which MXNet takes for one of the data's type */
void Scale(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs, const Requests& requests,
           const Blobs& outputs) {
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* data = inputs[0].dptr<DType>();
    const Real scale = static_cast<Real>(static_cast<DType>(LoweredParamOf(attrs).labels.scale));
    MapElements<DType>(requests[0], outputs[0],
                       [=](size_t i) { return static_cast<Real>(data[i]) * scale; });
  });
}

void RegisterParts() {
  RegisterPart("_tofu_valid_cells", {"d", "N"}, ParseLossPart, CountValidCells,
               {{"loss.cu", "tofu_valid_cells", PartLoop::kReduceAll}});
  RegisterPart("_tofu_make_loss_gradient", {"dN", "d"}, ParseLossPart, ComputeGradient,
               {{"loss.cu", "tofu_make_loss_gradient", PartLoop::kMapPositions}});
  RegisterPart("_tofu_scale", {"d", "d"}, ParseLossPart, Scale,
               {{"loss.cu", "tofu_scale", PartLoop::kMapPositions}})
      .set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace);
}

[[maybe_unused]] const bool kRegistered = (RegisterParts(), true);

}  // namespace
}  // namespace nnvm_layer
}  // namespace tofu
