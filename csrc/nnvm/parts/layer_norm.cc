/*!
 * \file layer_norm.cc
 * \brief LayerNorm in parts that may be split along the dimension that it normalises: sums along
 * each line, which the workers add up, and the rest from whole sums.
 *
 * As for BatchNorm (batch_norm.cc): two passes, sums in double precision, `count` the extent of the
 * whole tensor.
 */
#include <cmath>
#include <utility>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {
namespace {

/*! \brief data -> sum */
void ComputeSum(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                const Requests& requests, const Blobs& outputs) {
  const DimensionView view(inputs[0].shape_, LoweredParamOf(attrs).axis);
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* data = inputs[0].dptr<DType>();
    const auto value = [=](int64_t, int64_t, int64_t i) { return static_cast<double>(data[i]); };
    StoreSums(requests[0], outputs[0], SumAlong(view, value, kNothing).first);
  });
}

/*! \brief data, sum -> sum of (data - mean)^2 */
void ComputeSquares(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                    const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis);
  const double* sums = inputs[1].dptr<double>();
  const double share = 1.0 / param.count;
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* data = inputs[0].dptr<DType>();
    const auto value = [=](int64_t line, int64_t, int64_t i) {
      const double deviation = static_cast<double>(data[i]) - sums[line] * share;
      return deviation * deviation;
    };
    StoreSums(requests[0], outputs[0], SumAlong(view, value, kNothing).first);
  });
}

/*! \brief data, gamma, beta, sum, squares -> out, mean, std */
void ComputeApply(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                  const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis);
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    std::vector<Real> mean(view.num_lines());
    std::vector<Real> std(view.num_lines());
    for (int64_t line = 0; line < view.num_lines(); ++line) {
      mean[line] = static_cast<Real>(inputs[3].dptr<double>()[line] / param.count);
      const double variance = inputs[4].dptr<double>()[line] / param.count;
      std[line] = static_cast<Real>(std::sqrt(variance + param.eps));
    }
    const DType* data = inputs[0].dptr<DType>();
    const DType* gamma = inputs[1].dptr<DType>();
    const DType* beta = inputs[2].dptr<DType>();
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [&](int64_t line, int64_t p, int64_t i) {
      const Real normal = (static_cast<Real>(data[i]) - mean[line]) / std[line];
      return normal * static_cast<Real>(gamma[p]) + static_cast<Real>(beta[p]);
    });
    MapElements<DType>(requests[1], outputs[1], [&](size_t line) { return mean[line]; });
    MapElements<DType>(requests[2], outputs[2], [&](size_t line) { return std[line]; });
  });
}

/*! \brief d_out, data, gamma, mean, std -> sums of d_out * gamma, and of that times the normalised
 * data */
void ComputeBackwardSums(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                         const Requests& requests, const Blobs& outputs) {
  const DimensionView view(inputs[0].shape_, LoweredParamOf(attrs).axis);
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* d_out = inputs[0].dptr<DType>();
    const DType* data = inputs[1].dptr<DType>();
    const DType* gamma = inputs[2].dptr<DType>();
    const DType* mean = inputs[3].dptr<DType>();
    const DType* std = inputs[4].dptr<DType>();
    const auto scaled = [=](int64_t, int64_t p, int64_t i) {
      return static_cast<double>(d_out[i]) * static_cast<double>(gamma[p]);
    };
    const auto projected = [=](int64_t line, int64_t p, int64_t i) {
      const double deviation = static_cast<double>(data[i]) - static_cast<double>(mean[line]);
      return scaled(line, p, i) * deviation / static_cast<double>(std[line]);
    };
    const SumPairs sums = SumAlong(view, scaled, projected);
    StoreSums(requests[0], outputs[0], sums.first);
    StoreSums(requests[1], outputs[1], sums.second);
  });
}

/*! \brief d_out, data, gamma, mean, std, both sums -> d_data, d_gamma, d_beta */
void ComputeBackwardApply(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                          const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis);
  const double share = 1.0 / param.count;
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* d_out = inputs[0].dptr<DType>();
    const DType* data = inputs[1].dptr<DType>();
    const DType* gamma = inputs[2].dptr<DType>();
    const DType* mean = inputs[3].dptr<DType>();
    const DType* std = inputs[4].dptr<DType>();
    const double* scaled = inputs[5].dptr<double>();
    const double* projected = inputs[6].dptr<double>();
    const auto line_of = [&view](int64_t i) {
      return i / (view.extent * view.inner) * view.inner + i % view.inner;
    };
    // Before d_data: it may take the place of d_out.
    const SumPairs sums = SumAcross(
        view,
        [=](int64_t, int64_t i) {
          const int64_t line = line_of(i);
          const double deviation = static_cast<double>(data[i]) - static_cast<double>(mean[line]);
          return static_cast<double>(d_out[i]) * deviation / static_cast<double>(std[line]);
        },
        [=](int64_t, int64_t i) { return static_cast<double>(d_out[i]); });
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [=](int64_t line, int64_t p, int64_t i) {
      const Real scale = static_cast<Real>(std[line]);
      const Real normal = (static_cast<Real>(data[i]) - static_cast<Real>(mean[line])) / scale;
      const Real own = static_cast<Real>(d_out[i]) * static_cast<Real>(gamma[p]);
      const Real common = static_cast<Real>(scaled[line] * share);
      return (own - common - normal * static_cast<Real>(projected[line] * share)) / scale;
    });
    MapElements<DType>(requests[1], outputs[1],
                       [&](size_t p) { return static_cast<Real>(sums.first[p]); });
    MapElements<DType>(requests[2], outputs[2],
                       [&](size_t p) { return static_cast<Real>(sums.second[p]); });
  });
}

void RegisterParts() {
  RegisterPart("_tofu_layer_norm_sum", {"d", "L"}, ParseLayerNormPart, ComputeSum,
               {{"layer_norm.cu", "tofu_layer_norm_sum", PartLoop::kReduceLines}});
  RegisterPart("_tofu_layer_norm_squares", {"dL", "L"}, ParseLayerNormPart, ComputeSquares,
               {{"layer_norm.cu", "tofu_layer_norm_squares", PartLoop::kReduceLines}});
  RegisterPart("_tofu_layer_norm_apply", {"dvvLL", "dll"}, ParseLayerNormPart, ComputeApply,
               {{"layer_norm.cu", "tofu_layer_norm_apply", PartLoop::kMapLines}})
      .set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace);
  RegisterPart("_tofu_layer_norm_backward_sums", {"ddvll", "LL"}, ParseLayerNormPart,
               ComputeBackwardSums,
               {{"layer_norm.cu", "tofu_layer_norm_backward_sums", PartLoop::kReduceLines}});
  // d_data may take the place of d_out, so the gradients of the parameters are computed first.
  RegisterPart(
      "_tofu_layer_norm_backward_apply", {"ddvllLL", "dvv"}, ParseLayerNormPart,
      ComputeBackwardApply,
      {{"layer_norm.cu", "tofu_layer_norm_backward_parameters", PartLoop::kReducePositions},
       {"layer_norm.cu", "tofu_layer_norm_backward_apply", PartLoop::kMapLines}})
      .set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace);
}

[[maybe_unused]] const bool kRegistered = (RegisterParts(), true);

}  // namespace
}  // namespace nnvm_layer
}  // namespace tofu
