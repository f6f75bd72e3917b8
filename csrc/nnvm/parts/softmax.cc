/*!
 * \file softmax.cc
 * \brief softmax and log_softmax in parts, which can be split along the normalised dimension.
 *
 * The first parts compute the maximum and the sum of exponentials of each line. These are combined
 * over the workers, and the last part computes the outputs from them. Sums are in double precision.
 */
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

template <typename Real, typename DType>
std::vector<Real> FindLargest(const DimensionView& view, const DType* data) {
  std::vector<Real> largest(view.num_lines(), -std::numeric_limits<Real>::infinity());
#pragma omp parallel for
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t p = 0; p < view.extent; ++p) {
      for (int64_t i = 0; i < view.inner; ++i) {
        Real& line = largest[o * view.inner + i];
        const Real value = static_cast<Real>(data[(o * view.extent + p) * view.inner + i]);
        line = line >= value || line != line ? line : value;  // keeps NaN
      }
    }
  }
  return largest;
}

/*! \brief data -> maximum of each line */
void ComputeMaximum(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const auto largest = FindLargest<Real>(call.view, call.Input<DType>(0));
    call.MapElements<DType>(0, [&](size_t line) { return largest[line]; });
  });
}

/*! \brief data, maximum -> sum of exp((data - maximum) / temperature) */
void ComputeSum(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const DType* data = call.Input<DType>(0);
    const DType* largest = call.Input<DType>(1);
    const Real temperature = static_cast<Real>(call.param.temperature);
    const auto value = [=](int64_t line, int64_t, int64_t i) {
      const Real below = static_cast<Real>(data[i]) - static_cast<Real>(largest[line]);
      return static_cast<double>(std::exp(below / temperature));
    };
    call.StoreSums(0, SumAlong(call.view, value, kNothing).first);
  });
}

/*! \brief data, maximum, sum -> softmax; log_softmax if `kIsLog` */
template <bool kIsLog>
void ComputeApply(const PartCall& call) {
  const double* sums = call.Input<double>(2);
  std::vector<double> divisors(
      sums, sums + call.view.num_lines());  // subtracted as logarithms if `kIsLog`
  for (double& value : divisors) value = kIsLog ? std::log(value) : value;
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const DType* data = call.Input<DType>(0);
    const DType* largest = call.Input<DType>(1);
    const Real temperature = static_cast<Real>(call.param.temperature);
    call.MapCells<DType>([&](int64_t line, int64_t, int64_t i) {
      const Real below = static_cast<Real>(data[i]) - static_cast<Real>(largest[line]);
      const Real divisor = static_cast<Real>(divisors[line]);
      return kIsLog ? below / temperature - divisor : std::exp(below / temperature) / divisor;
    });
  });
}

/*! \brief d_out, out -> sum of d_out * out; of d_out alone, the only input, if `kIsLog` */
template <bool kIsLog>
void ComputeBackwardSum(const PartCall& call) {
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* d_out = call.Input<DType>(0);
    const DType* out = call.Input<DType>(kIsLog ? 0 : 1);
    const auto value = [=](int64_t, int64_t, int64_t i) {
      const double own = static_cast<double>(d_out[i]);
      return kIsLog ? own : own * static_cast<double>(out[i]);
    };
    call.StoreSums(0, SumAlong(call.view, value, kNothing).first);
  });
}

/*! \brief d_out, out, sum -> d_data; of log_softmax if `kIsLog` */
template <bool kIsLog>
void ComputeBackwardApply(const PartCall& call) {
  const double* sums = call.Input<double>(2);
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const DType* d_out = call.Input<DType>(0);
    const DType* out = call.Input<DType>(1);
    const Real temperature = static_cast<Real>(call.param.temperature);
    call.MapCells<DType>([=](int64_t line, int64_t, int64_t i) {
      const Real own = static_cast<Real>(d_out[i]);
      const Real value = static_cast<Real>(out[i]);
      const Real sum = static_cast<Real>(sums[line]);
      return (kIsLog ? own - std::exp(value) * sum : value * (own - sum)) / temperature;
    });
  });
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"softmax.cu", -1},
    {{"_tofu_softmax_maximum", {"d", "l"}, ComputeMaximum, PartLoop::kReduceLines},
     {"_tofu_softmax_sum", {"dl", "L"}, ComputeSum, PartLoop::kReduceLines},
     {"_tofu_softmax_apply", {"dlL", "d"}, ComputeApply<false>, PartLoop::kMapLines},
     {"_tofu_softmax_output_apply",
      {"dlLn", "d"},
      ComputeApply<false>,
      PartLoop::kMapLines,
      ViewData,
      {{"softmax.cu", "tofu_softmax_apply", PartLoop::kMapLines}}},  // labels are not read
     {"_tofu_log_softmax_apply", {"dlL", "d"}, ComputeApply<true>, PartLoop::kMapLines},
     {"_tofu_softmax_backward_sum", {"dd", "L"}, ComputeBackwardSum<false>, PartLoop::kReduceLines},
     {"_tofu_log_softmax_backward_sum",
      {"d", "L"},
      ComputeBackwardSum<true>,
      PartLoop::kReduceLines},
     {"_tofu_softmax_backward_apply",
      {"ddL", "d"},
      ComputeBackwardApply<false>,
      PartLoop::kMapLines},
     {"_tofu_log_softmax_backward_apply",
      {"ddL", "d"},
      ComputeBackwardApply<true>,
      PartLoop::kMapLines}});
[[maybe_unused]] const bool kInPlace =
    AllowInPlace({"_tofu_softmax_apply", "_tofu_softmax_output_apply", "_tofu_log_softmax_apply",
                  "_tofu_softmax_backward_apply", "_tofu_log_softmax_backward_apply"});

}  // namespace
}  // namespace tofu::nnvm_layer
