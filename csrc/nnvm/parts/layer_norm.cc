/*!
 * \file layer_norm.cc
 * \brief LayerNorm in parts, which can be split along the normalised dimension.
 *
 * The first parts sum along each line. The workers' sums are added, and the last part computes the
 * outputs from the total sums. There are two passes in double precision, as in batch_norm.cc.
 * `count` is the extent of the complete tensor.
 */
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
    const auto value = [=](int64_t, int64_t, int64_t i) { return static_cast<double>(data[i]); };
    call.StoreSums(0, SumAlong(call.view, value, kNothing).first);
  });
}

/*! \brief data, sum -> sum of (data - mean)^2 */
void ComputeSquares(const PartCall& call) {
  const double* sums = call.Input<double>(1);
  const double share = 1.0 / call.param.count;
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* data = call.Input<DType>(0);
    const auto value = [=](int64_t line, int64_t, int64_t i) {
      const double deviation = static_cast<double>(data[i]) - sums[line] * share;
      return deviation * deviation;
    };
    call.StoreSums(0, SumAlong(call.view, value, kNothing).first);
  });
}

/*! \brief data, gamma, beta, sum, squares -> out, mean, std */
void ComputeApply(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    std::vector<Real> mean(call.view.num_lines());
    std::vector<Real> std(call.view.num_lines());
    for (int64_t line = 0; line < call.view.num_lines(); ++line) {
      mean[line] = static_cast<Real>(call.Input<double>(3)[line] / call.param.count);
      const double variance = call.Input<double>(4)[line] / call.param.count;
      std[line] = static_cast<Real>(std::sqrt(variance + call.param.eps));
    }
    const DType* data = call.Input<DType>(0);
    const DType* gamma = call.Input<DType>(1);
    const DType* beta = call.Input<DType>(2);
    call.MapCells<DType>([&](int64_t line, int64_t p, int64_t i) {
      const Real normal = (static_cast<Real>(data[i]) - mean[line]) / std[line];
      return normal * static_cast<Real>(gamma[p]) + static_cast<Real>(beta[p]);
    });
    call.MapElements<DType>(1, [&](size_t line) { return mean[line]; });
    call.MapElements<DType>(2, [&](size_t line) { return std[line]; });
  });
}

/*! \brief d_out, data, gamma, mean, std -> sums of d_out * gamma, and of that times the normalised
 * data */
void ComputeBackwardSums(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* d_out = call.Input<DType>(0);
    const DType* data = call.Input<DType>(1);
    const DType* gamma = call.Input<DType>(2);
    const DType* mean = call.Input<DType>(3);
    const DType* std = call.Input<DType>(4);
    const auto scaled = [=](int64_t, int64_t p, int64_t i) {
      return static_cast<double>(d_out[i]) * static_cast<double>(gamma[p]);
    };
    const auto projected = [=](int64_t line, int64_t p, int64_t i) {
      const double deviation = static_cast<double>(data[i]) - static_cast<double>(mean[line]);
      return scaled(line, p, i) * deviation / static_cast<double>(std[line]);
    };
    const SumPairs sums = SumAlong(call.view, scaled, projected);
    call.StoreSums(0, sums.first);
    call.StoreSums(1, sums.second);
  });
}

/*! \brief d_out, data, gamma, mean, std, both sums -> d_data, d_gamma, d_beta */
void ComputeBackwardApply(const PartCall& call) {
  const double share = 1.0 / call.param.count;
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const DType* d_out = call.Input<DType>(0);
    const DType* data = call.Input<DType>(1);
    const DType* gamma = call.Input<DType>(2);
    const DType* mean = call.Input<DType>(3);
    const DType* std = call.Input<DType>(4);
    const double* scaled = call.Input<double>(5);
    const double* projected = call.Input<double>(6);
    const auto line_of = [&call](int64_t i) {
      return i / (call.view.extent * call.view.inner) * call.view.inner + i % call.view.inner;
    };
    // Before d_data, which may replace d_out.
    const SumPairs sums = SumAcross(
        call.view,
        [=](int64_t, int64_t i) {
          const int64_t line = line_of(i);
          const double deviation = static_cast<double>(data[i]) - static_cast<double>(mean[line]);
          return static_cast<double>(d_out[i]) * deviation / static_cast<double>(std[line]);
        },
        [=](int64_t, int64_t i) { return static_cast<double>(d_out[i]); });
    call.MapCells<DType>([=](int64_t line, int64_t p, int64_t i) {
      const Real scale = static_cast<Real>(std[line]);
      const Real normal = (static_cast<Real>(data[i]) - static_cast<Real>(mean[line])) / scale;
      const Real own = static_cast<Real>(d_out[i]) * static_cast<Real>(gamma[p]);
      const Real common = static_cast<Real>(scaled[line] * share);
      return (own - common - normal * static_cast<Real>(projected[line] * share)) / scale;
    });
    call.MapElements<DType>(1, [&](size_t p) { return static_cast<Real>(sums.first[p]); });
    call.MapElements<DType>(2, [&](size_t p) { return static_cast<Real>(sums.second[p]); });
  });
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"layer_norm.cu", -1, 1e-5f, true},
    {{"_tofu_layer_norm_sum", {"d", "L"}, ComputeSum, PartLoop::kReduceLines},
     {"_tofu_layer_norm_squares", {"dL", "L"}, ComputeSquares, PartLoop::kReduceLines},
     {"_tofu_layer_norm_apply", {"dvvLL", "dll"}, ComputeApply, PartLoop::kMapLines},
     {"_tofu_layer_norm_backward_sums",
      {"ddvll", "LL"},
      ComputeBackwardSums,
      PartLoop::kReduceLines},
     // d_data may replace d_out, so the gradients of the parameters are computed first.
     {"_tofu_layer_norm_backward_apply",
      {"ddvllLL", "dvv"},
      ComputeBackwardApply,
      PartLoop::kMapLines,
      ViewData,
      {{"layer_norm.cu", "tofu_layer_norm_backward_parameters", PartLoop::kReducePositions},
       {"layer_norm.cu", "tofu_layer_norm_backward_apply", PartLoop::kMapLines}}}});
[[maybe_unused]] const bool kInPlace =
    AllowInPlace({"_tofu_layer_norm_apply", "_tofu_layer_norm_backward_apply"});

}  // namespace
}  // namespace tofu::nnvm_layer
