/*!
 * \file batch_norm.cc
 * \brief BatchNorm in parts, which can be split by batch and space.
 *
 * The first parts sum the elements of each channel. The workers' sums are added, and the last part
 * computes the outputs from the total sums. There are two passes over the data, the second around
 * the mean of the complete tensor. So the variance is accurate for any mean. Sums are in double
 * precision. `count` is the number of elements of the complete tensor per channel.
 */
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

/*! \brief data -> sum */
void ComputeSum(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* data = call.Input<DType>(0);
    const auto value = [data](int64_t, int64_t i) { return static_cast<double>(data[i]); };
    call.StoreSums(0, SumAcross(call.view, value, kNothing).first);
  });
}

/*! \brief data, sum -> sum of (data - mean)^2 */
void ComputeSquares(const PartCall& call) {
  std::vector<double> mean(call.view.extent);
  for (int64_t c = 0; c < call.view.extent; ++c)
    mean[c] = call.Input<double>(1)[c] / call.param.count;
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* data = call.Input<DType>(0);
    const auto value = [data, &mean](int64_t c, int64_t i) {
      const double deviation = static_cast<double>(data[i]) - mean[c];
      return deviation * deviation;
    };
    call.StoreSums(0, SumAcross(call.view, value, kNothing).first);
  });
}

/*! \brief Compute out, mean and 1 / std from the statistics, as the stock operator does. A fixed
 * gamma becomes 1 in training. */
void Normalize(const PartCall& call, const std::vector<double>& mean,
               const std::vector<double>& variance) {
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    Real* gamma = call.Input<Real>(1);
    const Real* beta = call.Input<Real>(2);
    if (call.param.fix_gamma && call.is_train) std::fill_n(gamma, call.view.extent, Real(1));
    std::vector<Real> center(mean.begin(), mean.end());
    std::vector<Real> inverse_std(call.view.extent);
    std::vector<Real> scale(call.view.extent);
    for (int64_t c = 0; c < call.view.extent; ++c) {
      inverse_std[c] = static_cast<Real>(1 / std::sqrt(variance[c] + call.param.eps));
      scale[c] = inverse_std[c] * (call.param.fix_gamma ? Real(1) : gamma[c]);
    }
    const DType* data = call.Input<DType>(0);
    call.MapCells<DType>([&](int64_t, int64_t c, int64_t i) {
      return (static_cast<Real>(data[i]) - center[c]) * scale[c] + beta[c];
    });
    call.MapElements<Real>(1, [&](size_t c) { return center[c]; });
    call.MapElements<Real>(2, [&](size_t c) { return inverse_std[c]; });
  });
}

/*! \brief data, gamma, beta, sum, squares -> out, mean, 1 / std */
void ComputeApply(const PartCall& call) {
  const auto divided = [&](const TBlob& sums) {
    std::vector<double> result(sums.dptr<double>(), sums.dptr<double>() + sums.Size());
    for (double& value : result) value /= call.param.count;
    return result;
  };
  Normalize(call, divided(call.inputs[3]), divided(call.inputs[4]));
}

/*! \brief data, gamma, beta, moving mean, moving variance -> out, mean, 1 / std */
void ComputeGlobal(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[3].type_flag_, Real, {
    const auto numbers = [](const TBlob& blob) {
      return std::vector<double>(blob.dptr<Real>(), blob.dptr<Real>() + blob.Size());
    };
    Normalize(call, numbers(call.inputs[3]), numbers(call.inputs[4]));
  });
}

/*! \brief d_out, data, mean, 1 / std -> sums of d_out, and of d_out * normalised data */
void ComputeBackwardSums(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const DType* d_out = call.Input<DType>(0);
    const DType* data = call.Input<DType>(1);
    const Real* mean = call.Input<Real>(2);
    const Real* inverse_std = call.Input<Real>(3);
    const SumPairs sums = SumAcross(
        call.view, [=](int64_t, int64_t i) { return static_cast<double>(d_out[i]); },
        [=](int64_t c, int64_t i) {
          const double normal = (static_cast<double>(data[i]) - mean[c]) * inverse_std[c];
          return static_cast<double>(d_out[i]) * normal;
        });
    call.StoreSums(0, sums.first);
    call.StoreSums(1, sums.second);
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
 * d_out * normalised data -> d_data, d_gamma, d_beta. Changes the moving statistics in place. */
void ComputeBackwardApply(const PartCall& call) {
  const double* by_beta = call.Input<double>(7);
  const double* by_gamma = call.Input<double>(8);
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const Real* mean = call.Input<Real>(2);
    const Real* inverse_std = call.Input<Real>(3);
    const Real* gamma = call.Input<Real>(4);
    std::vector<Real> offset(call.view.extent);
    std::vector<Real> slope(call.view.extent);
    std::vector<Real> scale(call.view.extent);
    for (int64_t c = 0; c < call.view.extent; ++c) {
      scale[c] = inverse_std[c] * (call.param.fix_gamma ? Real(1) : gamma[c]);
      offset[c] = static_cast<Real>(by_beta[c] / call.param.count);
      slope[c] = static_cast<Real>(by_gamma[c] / call.param.count * inverse_std[c]);
    }
    const DType* d_out = call.Input<DType>(0);
    const DType* data = call.Input<DType>(1);
    call.MapCells<DType>([&](int64_t, int64_t c, int64_t i) {
      const Real deviation = static_cast<Real>(data[i]) - mean[c];
      return (static_cast<Real>(d_out[i]) - offset[c] - deviation * slope[c]) * scale[c];
    });
    call.MapElements<Real>(
        1, [&](size_t c) { return static_cast<Real>(call.param.fix_gamma ? 0 : by_gamma[c]); });
    call.MapElements<Real>(2, [&](size_t c) { return static_cast<Real>(by_beta[c]); });
    MoveStatistics(call.param, mean, inverse_std, call.inputs[5], call.inputs[6]);
  });
}

std::vector<uint32_t> ListFixedGamma(const NodeAttrs& attrs) {
  return LoweredParamOf(attrs).fix_gamma ? std::vector<uint32_t>{1} : std::vector<uint32_t>{};
}

[[maybe_unused]] const bool kRegistered = RegisterBlockedParts(
    {"batch_norm.cu", 1, 1e-3f},
    {{"_tofu_batch_norm_sum", {"d", "V"}, ComputeSum, PartLoop::kReducePositions},
     {"_tofu_batch_norm_squares", {"dV", "V"}, ComputeSquares, PartLoop::kReducePositions},
     {"_tofu_batch_norm_apply", {"drrVV", "drr"}, ComputeApply, PartLoop::kMapPositions},
     {"_tofu_batch_norm_global", {"drrrr", "drr"}, ComputeGlobal, PartLoop::kMapPositions},
     {"_tofu_batch_norm_backward_sums",
      {"ddrr", "VV"},
      ComputeBackwardSums,
      PartLoop::kReducePositions},
     {"_tofu_batch_norm_backward_apply",
      {"ddrrrrrVV", "drr"},
      ComputeBackwardApply,
      PartLoop::kMapPositions}});
[[maybe_unused]] const bool kInPlace = AllowInPlace(
    {"_tofu_batch_norm_apply", "_tofu_batch_norm_global", "_tofu_batch_norm_backward_apply"});
[[maybe_unused]] const bool kMutates = [] {
  const auto set = [](const char* name, const nnvm::FMutateInputs& list) {
    dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__(name).set_attr<nnvm::FMutateInputs>(
        "FMutateInputs", list);
  };
  set("_tofu_batch_norm_apply", ListFixedGamma);
  set("_tofu_batch_norm_global", ListFixedGamma);
  set("_tofu_batch_norm_backward_apply",
      [](const NodeAttrs&) { return std::vector<uint32_t>{5, 6}; });
  return true;
}();

}  // namespace
}  // namespace tofu::nnvm_layer
