/*!
 * \file softmax_output.cc
 * \brief The gradient of SoftmaxOutput, which can be split by classes.
 *
 * It may be divided by the number of valid labels. This number is added over the workers, so the
 * gradient can also be split by batch or position.
 */
#include <algorithm>
#include <cstdint>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

/*! \brief label -> number of labels that are not ignored */
void CountValidLabels(const PartCall& call) {
  const int ignored = call.param.labels.ignored;
  MSHADOW_REAL_TYPE_SWITCH(call.inputs[0].type_flag_, DType, {
    const DType* labels = call.Input<DType>(0);
    const auto count = std::count_if(labels, labels + call.inputs[0].Size(), [=](DType label) {
      return static_cast<int>(label) != ignored;
    });
    call.StoreSums(0, {static_cast<double>(count)});
  });
}

/*! \brief out, label -> d_data, divided by the number of valid labels if that is the third input */
void ComputeGradient(const PartCall& call) {
  const cuda::Labels& labels = call.param.labels;
  const double count = call.inputs.size() == 3 ? std::max(1.0, *call.Input<double>(2)) : 1;
  const float share = labels.scale / static_cast<float>(count);
  const float elsewhere = labels.SharePerClass();
  MSHADOW_REAL_TYPE_SWITCH_EX(call.inputs[0].type_flag_, DType, Real, {
    const DType* out = call.Input<DType>(0);
    const DType* label = call.Input<DType>(1);
    const Real right = 1 - static_cast<Real>(labels.smoothing);
    const Real wrong = static_cast<Real>(elsewhere);
    const Real scale = static_cast<Real>(share);
    call.MapCells<DType>([=](int64_t line, int64_t p, int64_t i) {
      const int wanted = static_cast<int>(label[line]);
      if (labels.are_ignored && wanted == labels.ignored) return Real(0);
      return (static_cast<Real>(out[i]) - (labels.first + p == wanted ? right : wrong)) * scale;
    });
  });
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"softmax_output.cu", -1},
    {{"_tofu_valid_labels", {"d", "N"}, CountValidLabels, PartLoop::kReduceAll},
     {"_tofu_softmax_output_gradient", {"dn", "d"}, ComputeGradient, PartLoop::kMapLines},
     {"_tofu_softmax_output_gradient_by_count",
      {"dnN", "d"},
      ComputeGradient,
      PartLoop::kMapLines,
      ViewData,
      {{"softmax_output.cu", "tofu_softmax_output_gradient", PartLoop::kMapLines}}}});

}  // namespace
}  // namespace tofu::nnvm_layer
