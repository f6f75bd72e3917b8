/*!
 * \file softmax.cc
 * \brief softmax and log_softmax in parts that may be split along their own dimension: the largest
 * number and the sum of exponentials of each line, which the workers put together, and the rest
 * from those.
 *
 * Sums are taken in double precision.
 */
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {
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
        line = line >= value || line != line ? line : value;  // keeps what is no number
      }
    }
  }
  return largest;
}

/*! \brief data -> the largest of each line */
void ComputeMaximum(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                    const Requests& requests, const Blobs& outputs) {
  const DimensionView view(inputs[0].shape_, LoweredParamOf(attrs).axis);
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const auto largest = FindLargest<Real>(view, inputs[0].dptr<DType>());
    MapElements<DType>(requests[0], outputs[0], [&](size_t line) { return largest[line]; });
  });
}

/*! \brief data, largest -> sum of exp((data - largest) / temperature) */
void ComputeSum(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis);
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* data = inputs[0].dptr<DType>();
    const DType* largest = inputs[1].dptr<DType>();
    const Real temperature = static_cast<Real>(param.temperature);
    const auto value = [=](int64_t line, int64_t, int64_t i) {
      const Real below = static_cast<Real>(data[i]) - static_cast<Real>(largest[line]);
      return static_cast<double>(std::exp(below / temperature));
    };
    StoreSums(requests[0], outputs[0], SumAlong(view, value, kNothing).first);
  });
}

/*! \brief data, largest, sum -> softmax */
void ComputeApply(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                  const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis);
  const double* sums = inputs[2].dptr<double>();
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* data = inputs[0].dptr<DType>();
    const DType* largest = inputs[1].dptr<DType>();
    const Real temperature = static_cast<Real>(param.temperature);
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [=](int64_t line, int64_t, int64_t i) {
      const Real below = static_cast<Real>(data[i]) - static_cast<Real>(largest[line]);
      return std::exp(below / temperature) / static_cast<Real>(sums[line]);
    });
  });
}

/*! \brief data, largest, sum -> log_softmax */
void ComputeLogApply(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                     const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis);
  std::vector<double> logs(inputs[2].dptr<double>(), inputs[2].dptr<double>() + view.num_lines());
  for (double& value : logs) value = std::log(value);
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* data = inputs[0].dptr<DType>();
    const DType* largest = inputs[1].dptr<DType>();
    const Real temperature = static_cast<Real>(param.temperature);
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [&](int64_t line, int64_t, int64_t i) {
      const Real below = static_cast<Real>(data[i]) - static_cast<Real>(largest[line]);
      return below / temperature - static_cast<Real>(logs[line]);
    });
  });
}

/*! \brief d_out, out -> sum of d_out * out */
void ComputeBackwardSum(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                        const Requests& requests, const Blobs& outputs) {
  const DimensionView view(inputs[0].shape_, LoweredParamOf(attrs).axis);
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* d_out = inputs[0].dptr<DType>();
    const DType* out = inputs[1].dptr<DType>();
    const auto value = [=](int64_t, int64_t, int64_t i) {
      return static_cast<double>(d_out[i]) * static_cast<double>(out[i]);
    };
    StoreSums(requests[0], outputs[0], SumAlong(view, value, kNothing).first);
  });
}

/*! \brief d_out -> sum of d_out */
void ComputeLogBackwardSum(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                           const Requests& requests, const Blobs& outputs) {
  const DimensionView view(inputs[0].shape_, LoweredParamOf(attrs).axis);
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* d_out = inputs[0].dptr<DType>();
    const auto value = [=](int64_t, int64_t, int64_t i) { return static_cast<double>(d_out[i]); };
    StoreSums(requests[0], outputs[0], SumAlong(view, value, kNothing).first);
  });
}

/*! \brief d_out, out, sum -> d_data; of log_softmax where `kIsLog`. */
template <bool kIsLog>
void ComputeBackwardApply(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                          const Requests& requests, const Blobs& outputs) {
  const LoweredParam& param = LoweredParamOf(attrs);
  const DimensionView view(inputs[0].shape_, param.axis);
  const double* sums = inputs[2].dptr<double>();
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* d_out = inputs[0].dptr<DType>();
    const DType* out = inputs[1].dptr<DType>();
    const Real temperature = static_cast<Real>(param.temperature);
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [=](int64_t line, int64_t, int64_t i) {
      const Real own = static_cast<Real>(d_out[i]);
      const Real value = static_cast<Real>(out[i]);
      const Real sum = static_cast<Real>(sums[line]);
      return (kIsLog ? own - std::exp(value) * sum : value * (own - sum)) / temperature;
    });
  });
}

void RegisterApply(const char* name, const char* inputs, mxnet::FCompute compute,
                   std::vector<cuda::PartKernel> kernels) {
  RegisterPart(name, {inputs, "d"}, ParseSoftmaxPart, std::move(compute), std::move(kernels))
      .set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace);
}

void RegisterParts() {
  RegisterPart("_tofu_softmax_maximum", {"d", "l"}, ParseSoftmaxPart, ComputeMaximum,
               {{"softmax.cu", "tofu_softmax_maximum", PartLoop::kReduceLines}});
  RegisterPart("_tofu_softmax_sum", {"dl", "L"}, ParseSoftmaxPart, ComputeSum,
               {{"softmax.cu", "tofu_softmax_sum", PartLoop::kReduceLines}});
  RegisterApply("_tofu_softmax_apply", "dlL", ComputeApply,
                {{"softmax.cu", "tofu_softmax_apply", PartLoop::kMapLines}});
  RegisterApply("_tofu_softmax_output_apply", "dlLn", ComputeApply,  // labels are not read
                {{"softmax.cu", "tofu_softmax_apply", PartLoop::kMapLines}});
  RegisterApply("_tofu_log_softmax_apply", "dlL", ComputeLogApply,
                {{"softmax.cu", "tofu_log_softmax_apply", PartLoop::kMapLines}});
  RegisterPart("_tofu_softmax_backward_sum", {"dd", "L"}, ParseSoftmaxPart, ComputeBackwardSum,
               {{"softmax.cu", "tofu_softmax_backward_sum", PartLoop::kReduceLines}});
  RegisterPart("_tofu_log_softmax_backward_sum", {"d", "L"}, ParseSoftmaxPart,
               ComputeLogBackwardSum,
               {{"softmax.cu", "tofu_log_softmax_backward_sum", PartLoop::kReduceLines}});
  RegisterApply("_tofu_softmax_backward_apply", "ddL", ComputeBackwardApply<false>,
                {{"softmax.cu", "tofu_softmax_backward_apply", PartLoop::kMapLines}});
  RegisterApply("_tofu_log_softmax_backward_apply", "ddL", ComputeBackwardApply<true>,
                {{"softmax.cu", "tofu_log_softmax_backward_apply", PartLoop::kMapLines}});
}

[[maybe_unused]] const bool kRegistered = (RegisterParts(), true);

}  // namespace
}  // namespace nnvm_layer
}  // namespace tofu
