/*!
 * \file ctc.cc
 * \brief CTCLoss for a part of the samples.
 *
 * If no sample of a batch has a label, MXNet's kernel writes neither loss nor gradient. This is
 * likely for a part of a batch. So this operator computes such parts itself, on CPUs: only blanks
 * produce an empty label. MXNet's kernel also leaves out the gradient of samples whose labels do
 * not fit into their length. This operator sets it to zero. The loss of such samples is zero, too.
 */
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

const nnvm::Op* StockLoss() { return nnvm::Op::Get("CTCLoss"); }

/*! \brief Inputs are data, label, and the lengths of both, if they are used. */
struct LossInputs {
  LossInputs(const NodeAttrs& attrs, const Blobs& inputs)
      : data(inputs[0]),
        label(inputs[1]),
        is_blank_last(FindText(attrs, "blank_label") != nullptr &&
                      *FindText(attrs, "blank_label") == "last") {
    size_t next = 2;
    if (ReadFlag(attrs, "use_data_lengths", false)) data_lengths = &inputs[next++];
    if (ReadFlag(attrs, "use_label_lengths", false)) label_lengths = &inputs[next++];
  }

  /*! \brief Return true if no sample has a label. */
  bool AreEmpty() const {
    const TBlob& numbers = label_lengths == nullptr ? label : *label_lengths;
    const int empty = label_lengths == nullptr && is_blank_last ? -1 : 0;
    const int64_t samples = label.shape_[0];
    const int64_t stride = static_cast<int64_t>(numbers.Size()) / samples;
    bool are_empty = true;
    MSHADOW_TYPE_SWITCH(numbers.type_flag_, DType, {
      const DType* number = numbers.dptr<DType>();
      for (int64_t b = 0; b < samples; ++b)
        are_empty = are_empty && static_cast<int>(number[b * stride]) == empty;
    });
    return are_empty;
  }

  int64_t StepsOf(int64_t sample) const {
    const int64_t steps = data.shape_[0];
    if (data_lengths == nullptr) return steps;
    return std::min(steps, static_cast<int64_t>(data_lengths->dptr<float>()[sample]));
  }

  const TBlob& data;
  const TBlob& label;
  bool is_blank_last;
  const TBlob* data_lengths = nullptr;
  const TBlob* label_lengths = nullptr;
};

/*! \brief data -> loss and gradient of samples without labels. A null pointer is not written. */
void ComputeBlanks(const LossInputs& inputs, float* loss, float* gradient) {
  const int64_t steps = inputs.data.shape_[0];
  const int64_t samples = inputs.data.shape_[1];
  const int64_t classes = inputs.data.shape_[2];
  const int64_t blank = inputs.is_blank_last ? classes - 1 : 0;
#pragma omp parallel for
  for (int64_t b = 0; b < samples; ++b) {
    const int64_t length = inputs.StepsOf(b);
    double total = 0;
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t begin = (t * samples + b) * classes;
      const float* data = inputs.data.dptr<float>() + begin;
      const float largest = *std::max_element(data, data + classes);
      double sum = 0;
      for (int64_t k = 0; k < classes; ++k) sum += std::exp(static_cast<double>(data[k] - largest));
      if (t < length) total += std::log(sum) - (data[blank] - largest);
      for (int64_t k = 0; gradient != nullptr && k < classes; ++k) {
        const double share = std::exp(static_cast<double>(data[k] - largest)) / sum;
        gradient[begin + k] = t < length ? static_cast<float>(share - (k == blank ? 1 : 0)) : 0;
      }
    }
    if (loss != nullptr) loss[b] = static_cast<float>(total);
  }
}

mxnet::FCompute ComputeLoss(const mxnet::FCompute& kernel) {
  return [kernel](const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                  const Requests& requests, const Blobs& outputs) {
    CHECK_EQ(inputs[0].type_flag_, static_cast<int>(mshadow::kFloat32))
        << attrs.name << ": CTCLoss has a kernel for float32 alone";
    const auto pointer = [&](size_t i) {
      return requests[i] == mxnet::kNullOp ? nullptr : outputs[i].dptr<float>();
    };
    const LossInputs named(attrs, inputs);
    if (named.AreEmpty()) return ComputeBlanks(named, pointer(0), pointer(1));
    if (float* gradient = pointer(1)) std::fill_n(gradient, outputs[1].Size(), 0.0F);
    kernel(attrs, context, inputs, requests, outputs);
  };
}

void RegisterLoss() {
  const nnvm::Op* stock = StockLoss();
  nnvm::Op& op = dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__("_tofu_ctc_loss");
  op.set_attr_parser(stock->attr_parser).set_num_inputs(stock->get_num_inputs).set_num_outputs(2);
  CopyAttr<nnvm::FListInputNames>(stock, &op, "FListInputNames");
  CopyAttr<nnvm::FNumVisibleOutputs>(stock, &op, "FNumVisibleOutputs");
  CopyAttr<mxnet::FInferShape>(stock, &op, "FInferShape");
  CopyAttr<nnvm::FInferType>(stock, &op, "FInferType");
  CopyAttr<nnvm::FGradient>(stock, &op, "FGradient");
  CopyAttr<mxnet::FResourceRequest>(stock, &op, "FResourceRequest");
  const auto& on_cpu = nnvm::Op::GetAttr<mxnet::FCompute>("FCompute<cpu>");
  op.set_attr<mxnet::FCompute>("FCompute<cpu>", ComputeLoss(on_cpu[stock]));
  CopyAttr<mxnet::FCompute>(stock, &op, "FCompute<gpu>");
}

[[maybe_unused]] const bool kRegistered = (RegisterLoss(), true);

}  // namespace
}  // namespace tofu::nnvm_layer
