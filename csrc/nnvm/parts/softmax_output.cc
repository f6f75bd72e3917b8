/*!
 * \file softmax_output.cc
 * \brief SoftmaxOutput's gradient, which may be split by classes. Where it is divided by the number
 * of valid labels, it may be split by batch or position: that number, which the workers put
 * together, and the rest from it.
 */
#include <algorithm>
#include <cstdint>
#include <vector>

#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu {
namespace nnvm_layer {
namespace {

/*! \brief label -> how many are not to be ignored */
void CountValidLabels(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                      const Requests& requests, const Blobs& outputs) {
  const int ignored = LoweredParamOf(attrs).labels.ignored;
  MSHADOW_REAL_TYPE_SWITCH(inputs[0].type_flag_, DType, {
    const DType* labels = inputs[0].dptr<DType>();
    const auto count = std::count_if(labels, labels + inputs[0].Size(), [=](DType label) {
      return static_cast<int>(label) != ignored;
    });
    StoreSums(requests[0], outputs[0], {static_cast<double>(count)});
  });
}

/*! \brief out, label -> d_data; divided by the number of valid labels where that is a third input
 */
void ComputeGradient(const NodeAttrs& attrs, const OpContext&, const Blobs& inputs,
                     const Requests& requests, const Blobs& outputs) {
  const cuda::Labels& labels = LoweredParamOf(attrs).labels;
  const DimensionView view(inputs[0].shape_, LoweredParamOf(attrs).axis);
  const double count = inputs.size() == 3 ? std::max(1.0, *inputs[2].dptr<double>()) : 1;
  const float share = labels.scale / static_cast<float>(count);
  const float elsewhere = labels.SharePerClass();
  MSHADOW_REAL_TYPE_SWITCH_EX(inputs[0].type_flag_, DType, Real, {
    const DType* out = inputs[0].dptr<DType>();
    const DType* label = inputs[1].dptr<DType>();
    const Real right = 1 - static_cast<Real>(labels.smoothing);
    const Real wrong = static_cast<Real>(elsewhere);
    const Real scale = static_cast<Real>(share);
    MapCells(view, requests[0], outputs[0].dptr<DType>(), [=](int64_t line, int64_t p, int64_t i) {
      const int wanted = static_cast<int>(label[line]);
      if (labels.are_ignored && wanted == labels.ignored) return Real(0);
      return (static_cast<Real>(out[i]) - (labels.first + p == wanted ? right : wrong)) * scale;
    });
  });
}

void RegisterParts() {
  RegisterPart("_tofu_valid_labels", {"d", "N"}, ParseSoftmaxOutputPart, CountValidLabels,
               {{"softmax_output.cu", "tofu_valid_labels", PartLoop::kReduceAll}});
  const cuda::PartKernel kernel = {"softmax_output.cu", "tofu_softmax_output_gradient",
                                   PartLoop::kMapLines};
  RegisterPart("_tofu_softmax_output_gradient", {"dn", "d"}, ParseSoftmaxOutputPart,
               ComputeGradient, {kernel});
  RegisterPart("_tofu_softmax_output_gradient_by_count", {"dnN", "d"}, ParseSoftmaxOutputPart,
               ComputeGradient, {kernel});
}

[[maybe_unused]] const bool kRegistered = (RegisterParts(), true);

}  // namespace
}  // namespace nnvm_layer
}  // namespace tofu
