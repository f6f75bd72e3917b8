/*!
 * \file batch_norm.cc
 * \brief BatchNorm in parts that may be split by batch and space: sums over the cells of each
 * channel, which the workers add up, and the rest from whole sums.
 *
 * Two passes, the second around the mean of the whole tensor, so that the variance is right
 * whatever the mean. Sums are taken and kept in double precision. `count` is the number of cells of
 * the whole tensor in each channel.
 */
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "nnvm/parts/blocked_part.h"
#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {
namespace {

/*! \brief data -> sum */
void ComputeSum(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                const Requests& requests, const Blobs& outputs, int64_t block) {
  const DimensionView view(inputs[0].shape_, LoweredParamOf(attrs).axis, block);
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* data = inputs[0].dptr<DType>();
    const auto value = [data](int64_t, int64_t i) { return static_cast<double>(data[i]); };
    StoreSums(requests[0], outputs[0], SumAcross(view, value, kNothing).first);
  });
}

/*! \brief data, sum -> sum of (data - mean)^2 */
void ComputeSquares(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                    const Requests& requests, const Blobs& outputs, int64_t block) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis, block);
  std::vector<double> mean(view.extent);
  for (int64_t c = 0; c < view.extent; ++c) mean[c] = inputs[1].dptr<double>()[c] / param.count;
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* data = inputs[0].dptr<DType>();
    const auto value = [data, &mean](int64_t c, int64_t i) {
      const double deviation = static_cast<double>(data[i]) - mean[c];
      return deviation * deviation;
    };
    StoreSums(requests[0], outputs[0], SumAcross(view, value, kNothing).first);
  });
}

/*! \brief out, mean and 1 / std from the statistics, as the stock operator has them; a gamma that
 * is fixed becomes 1 in training. */
void Normalize(const LoweredParam& param, bool is_train, const Blobs& inputs,
               const Requests& requests, const Blobs& outputs, int64_t block,
               const std::vector<double>& mean, const std::vector<double>& variance) {
  const DimensionView view(inputs[0].shape_, param.axis, block);
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    Real* gamma = inputs[1].dptr<Real>();
    const Real* beta = inputs[2].dptr<Real>();
    if (param.fix_gamma && is_train) std::fill_n(gamma, view.extent, Real(1));
    std::vector<Real> center(mean.begin(), mean.end());
    std::vector<Real> inverse_std(view.extent);
    std::vector<Real> scale(view.extent);
    for (int64_t c = 0; c < view.extent; ++c) {
      inverse_std[c] = static_cast<Real>(1 / std::sqrt(variance[c] + param.eps));
      scale[c] = inverse_std[c] * (param.fix_gamma ? Real(1) : gamma[c]);
    }
    const DType* data = inputs[0].dptr<DType>();
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [&](int64_t, int64_t c, int64_t i) {
      return (static_cast<Real>(data[i]) - center[c]) * scale[c] + beta[c];
    });
    MapElements<Real>(requests[1], outputs[1], [&](size_t c) { return center[c]; });
    MapElements<Real>(requests[2], outputs[2], [&](size_t c) { return inverse_std[c]; });
  });
}

/*! \brief data, gamma, beta, sum, squares -> out, mean, 1 / std */
void ComputeApply(const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                  const Requests& requests, const Blobs& outputs, int64_t block) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const auto divided = [&](const TBlob& sums) {
    std::vector<double> result(sums.dptr<double>(), sums.dptr<double>() + sums.Size());
    for (double& value : result) value /= param.count;
    return result;
  };
  Normalize(param, context.is_train, inputs, requests, outputs, block, divided(inputs[3]),
            divided(inputs[4]));
}

/*! \brief data, gamma, beta, moving mean, moving variance -> out, mean, 1 / std */
void ComputeGlobal(const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                   const Requests& requests, const Blobs& outputs, int64_t block) {
  MSHADOW_REAL_TYPE_SWITCH(inputs[3].type_flag_, Real, {
    const auto numbers = [](const TBlob& blob) {
      return std::vector<double>(blob.dptr<Real>(), blob.dptr<Real>() + blob.Size());
    };
    Normalize(LoweredParamOf(attrs), context.is_train, inputs, requests, outputs, block,
              numbers(inputs[3]), numbers(inputs[4]));
  });
}

/*! \brief d_out, data, mean, 1 / std -> sums of d_out, and of d_out * normalised data */
void ComputeBackwardSums(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                         const Requests& requests, const Blobs& outputs, int64_t block) {
  const DimensionView view(inputs[0].shape_, LoweredParamOf(attrs).axis, block);
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* d_out = inputs[0].dptr<DType>();
    const DType* data = inputs[1].dptr<DType>();
    const Real* mean = inputs[2].dptr<Real>();
    const Real* inverse_std = inputs[3].dptr<Real>();
    const SumPairs sums = SumAcross(
        view, [=](int64_t, int64_t i) { return static_cast<double>(d_out[i]); },
        [=](int64_t c, int64_t i) {
          const double normal = (static_cast<double>(data[i]) - mean[c]) * inverse_std[c];
          return static_cast<double>(d_out[i]) * normal;
        });
    StoreSums(requests[0], outputs[0], sums.first);
    StoreSums(requests[1], outputs[1], sums.second);
  });
}

template <typename Real>
void MoveStatistics(const LoweredParam& param, const Real* mean, const Real* inverse_std,
                    const TBlob& moving_mean, const TBlob& moving_variance) {
  const Real kept = static_cast<Real>(param.momentum);
  for (size_t c = 0; c < moving_mean.Size(); ++c) {
    const Real variance = 1 / (inverse_std[c] * inverse_std[c]) - static_cast<Real>(param.eps);
    Real& average = moving_mean.dptr<Real>()[c];
    Real& spread = moving_variance.dptr<Real>()[c];
    average = average * kept + mean[c] * (1 - kept);
    spread = spread * kept + variance * (1 - kept);
  }
}

/*! \brief d_out, data, mean, 1 / std, gamma, moving mean, moving variance, sums of d_out, sums of
 * d_out * normalised data -> d_data, d_gamma, d_beta; the moving statistics change in place. */
void ComputeBackwardApply(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                          const Requests& requests, const Blobs& outputs, int64_t block) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis, block);
  const double* by_beta = inputs[7].dptr<double>();
  const double* by_gamma = inputs[8].dptr<double>();
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const Real* mean = inputs[2].dptr<Real>();
    const Real* inverse_std = inputs[3].dptr<Real>();
    const Real* gamma = inputs[4].dptr<Real>();
    std::vector<Real> offset(view.extent);
    std::vector<Real> slope(view.extent);
    std::vector<Real> scale(view.extent);
    for (int64_t c = 0; c < view.extent; ++c) {
      scale[c] = inverse_std[c] * (param.fix_gamma ? Real(1) : gamma[c]);
      offset[c] = static_cast<Real>(by_beta[c] / param.count);
      slope[c] = static_cast<Real>(by_gamma[c] / param.count * inverse_std[c]);
    }
    const DType* d_out = inputs[0].dptr<DType>();
    const DType* data = inputs[1].dptr<DType>();
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [&](int64_t, int64_t c, int64_t i) {
      const Real deviation = static_cast<Real>(data[i]) - mean[c];
      return (static_cast<Real>(d_out[i]) - offset[c] - deviation * slope[c]) * scale[c];
    });
    MapElements<Real>(requests[1], outputs[1], [&](size_t c) {
      return static_cast<Real>(param.fix_gamma ? 0 : by_gamma[c]);
    });
    MapElements<Real>(requests[2], outputs[2],
                      [&](size_t c) { return static_cast<Real>(by_beta[c]); });
    MoveStatistics(param, mean, inverse_std, inputs[5], inputs[6]);
  });
}

std::vector<uint32_t> ListFixedGamma(const NodeAttrs& attrs) {
  return LoweredParamOf(attrs).fix_gamma ? std::vector<uint32_t>{1} : std::vector<uint32_t>{};
}

void RegisterParts() {
  RegisterBlockedPart("_tofu_batch_norm_sum", {"d", "V"}, ParseBatchNormPart, ComputeSum,
                      {{"batch_norm.cu", "tofu_batch_norm_sum", PartLoop::kReducePositions}});
  RegisterBlockedPart("_tofu_batch_norm_squares", {"dV", "V"}, ParseBatchNormPart, ComputeSquares,
                      {{"batch_norm.cu", "tofu_batch_norm_squares", PartLoop::kReducePositions}});
  RegisterBlockedPart("_tofu_batch_norm_apply", {"drrVV", "drr"}, ParseBatchNormPart, ComputeApply,
                      {{"batch_norm.cu", "tofu_batch_norm_apply", PartLoop::kMapPositions}})
      .set_attr<nnvm::FMutateInputs>("FMutateInputs", ListFixedGamma)
      .set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace);
  RegisterBlockedPart("_tofu_batch_norm_global", {"drrrr", "drr"}, ParseBatchNormPart,
                      ComputeGlobal,
                      {{"batch_norm.cu", "tofu_batch_norm_global", PartLoop::kMapPositions}})
      .set_attr<nnvm::FMutateInputs>("FMutateInputs", ListFixedGamma)
      .set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace);
  RegisterBlockedPart(
      "_tofu_batch_norm_backward_sums", {"ddrr", "VV"}, ParseBatchNormPart, ComputeBackwardSums,
      {{"batch_norm.cu", "tofu_batch_norm_backward_sums", PartLoop::kReducePositions}});
  RegisterBlockedPart(
      "_tofu_batch_norm_backward_apply", {"ddrrrrrVV", "drr"}, ParseBatchNormPart,
      ComputeBackwardApply,
      {{"batch_norm.cu", "tofu_batch_norm_backward_apply", PartLoop::kMapPositions}})
      .set_attr<nnvm::FMutateInputs>("FMutateInputs",
                                     [](const NodeAttrs&) { return std::vector<uint32_t>{5, 6}; })
      .set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace);
}

[[maybe_unused]] const bool kRegistered = (RegisterParts(), true);

}  // namespace
}  // namespace nnvm_layer
}  // namespace tofu
