/*!
 * \file attention.cc
 * \brief Attention over interleaved projections, which can be split by heads.
 *
 * MXNet's scores have the shape (batch * heads, queries, keys). Here, batch and heads are separate
 * dimensions. MXNet's kernels compute in views of the same memory.
 */
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

constexpr int kScoresRank = 4;

/*!
 * \brief An operator that runs MXNet's operator `stock`, with the attributes of `forward`.
 *
 * `inputs` has a letter for each input: s for scores or weights, otherwise the number of
 * projections (queries, keys, values) interleaved per head. The output is scores if no input is.
 * Outputs of a gradient have the shapes of all inputs but the first.
 */
struct Attention {
  const char* name;
  const char* stock;
  const char* forward;
  const char* inputs;
  uint32_t num_outputs;
  bool is_gradient;
};

int64_t HeadsOf(const NodeAttrs& attrs) {
  const std::string* heads = FindText(attrs, "heads");
  CHECK(heads != nullptr) << attrs.name << ": attribute heads is missing";
  return std::atoll(heads->c_str());
}

/*! \brief Scores in MXNet's shape; other tensors unchanged. */
TBlob MergeHeads(const TBlob& blob) {
  if (blob.ndim() != kScoresRank) return blob;
  const mxnet::TShape& shape = blob.shape_;
  return blob.reshape({shape[0] * shape[1], shape[2], shape[3]});
}

mxnet::FCompute InMergedViews(const mxnet::FCompute& kernel) {
  return [kernel](const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                  const Requests& requests, const Blobs& outputs) {
    Blobs read, written;
    for (const TBlob& input : inputs) read.push_back(MergeHeads(input));
    for (const TBlob& output : outputs) written.push_back(MergeHeads(output));
    kernel(attrs, context, read, requests, written);
  };
}

/*! \brief Sizes that an operator's inputs share, as far as they are known. */
class CommonSizes {
 public:
  CommonSizes(const NodeAttrs& attrs, const char* letters, const mxnet::ShapeVector& inputs)
      : attrs_(attrs) {
    CHECK_GT(HeadsOf(attrs), 0) << attrs.name << ": attribute heads is " << HeadsOf(attrs);
    heads_ = HeadsOf(attrs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      CHECK_EQ(inputs[i].ndim(), letters[i] == 's' ? kScoresRank : 3)
          << attrs.name << ": input " << i << " has shape " << inputs[i];
      letters[i] == 's' ? AddScores(inputs[i]) : AddProjection(inputs[i], letters[i] - '0');
    }
  }

 private:
  void AddScores(const mxnet::TShape& shape) {
    Agree(shape, 0, shape[0], &batch_);
    Agree(shape, 1, shape[1], &heads_);
    Agree(shape, 2, shape[2], &queries_);
    Agree(shape, 3, shape[3], &keys_);
  }

  /*! \brief Note the sizes of a tensor of `shares` projections. One projection has the time of the
   * queries, and two have the time of the keys. With three, both times are equal. */
  void AddProjection(const mxnet::TShape& shape, int shares) {
    Agree(shape, 1, shape[1], &batch_);
    if (shares != 2) Agree(shape, 0, shape[0], &queries_);
    if (shares != 1) Agree(shape, 0, shape[0], &keys_);
    CHECK_EQ(shape[2] % (heads_ * shares), 0)
        << attrs_.name << ": dimension 2 of " << shape << " is no multiple of " << heads_
        << " heads times " << shares;
    Agree(shape, 2, shape[2] / (heads_ * shares), &depth_);
  }

  void Agree(const mxnet::TShape& shape, int dimension, int64_t own, int64_t* known) const {
    CHECK(*known == kUnknown || *known == own)
        << attrs_.name << ": dimension " << dimension << " of " << shape << " asks for " << own
        << ", and another input for " << *known;
    *known = own;
  }

  static constexpr int64_t kUnknown = -1;
  const NodeAttrs& attrs_;
  int64_t batch_ = kUnknown;
  int64_t heads_ = kUnknown;
  int64_t queries_ = kUnknown;
  int64_t keys_ = kUnknown;
  int64_t depth_ = kUnknown;
};

/*! \brief The output of a forward operator: scores of projections, or weighted values. */
mxnet::TShape ShapeOfOutput(const NodeAttrs& attrs, const char* letters,
                            const mxnet::ShapeVector& inputs) {
  const mxnet::TShape& first = inputs.front();
  const mxnet::TShape& last = inputs.back();
  if (letters[inputs.size() - 1] != 's') return {first[1], HeadsOf(attrs), first[0], last[0]};
  return {last[2], first[1], first[2] / (letters[0] - '0')};
}

mxnet::FInferShape InferShapeOf(const Attention& op) {
  return [op](const NodeAttrs& attrs, mxnet::ShapeVector* inputs, mxnet::ShapeVector* outputs) {
    if (!AreKnown(*inputs)) return false;
    CommonSizes(attrs, op.inputs, *inputs);
    mxnet::ShapeVector found(inputs->begin() + 1, inputs->end());
    if (!op.is_gradient) found = {ShapeOfOutput(attrs, op.inputs, *inputs)};
    for (size_t i = 0; i < outputs->size(); ++i) {
      CHECK(!mxnet::shape_is_known(outputs->at(i)) || outputs->at(i) == found[i])
          << attrs.name << ": output " << i << " has shape " << outputs->at(i) << ", and "
          << found[i] << " is expected";
    }
    *outputs = found;
    return true;
  };
}

bool InferType(const NodeAttrs&, std::vector<int>* inputs, std::vector<int>* outputs) {
  for (int type : *inputs) {
    if (type != -1) {
      inputs->assign(inputs->size(), type);
      outputs->assign(outputs->size(), type);
      return true;
    }
  }
  return false;
}

void Register(const Attention& attention) {
  nnvm::Op& op = dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__(attention.name);
  const nnvm::Op* stock = nnvm::Op::Get(attention.stock);
  op.set_num_inputs(static_cast<uint32_t>(std::strlen(attention.inputs)))
      .set_num_outputs(attention.num_outputs)
      .set_attr_parser(nnvm::Op::Get(attention.forward)->attr_parser)
      .set_attr<mxnet::FInferShape>("FInferShape", InferShapeOf(attention))
      .set_attr<nnvm::FInferType>("FInferType", InferType);
  for (const char* device : {"FCompute<cpu>", "FCompute<gpu>"}) {
    const auto& kernels = nnvm::Op::GetAttr<mxnet::FCompute>(device);
    if (kernels.contains(stock))
      op.set_attr<mxnet::FCompute>(device, InMergedViews(kernels[stock]));
  }
}

constexpr char kSelfScores[] = "_contrib_interleaved_matmul_selfatt_qk";
constexpr char kSelfSums[] = "_contrib_interleaved_matmul_selfatt_valatt";
constexpr char kScores[] = "_contrib_interleaved_matmul_encdec_qk";
constexpr char kSums[] = "_contrib_interleaved_matmul_encdec_valatt";

void RegisterAll() {
  Register({"_tofu_selfatt_qk", kSelfScores, kSelfScores, "3", 1, false});
  Register({"_tofu_selfatt_qk_backward", "_backward_interleaved_matmul_selfatt_qk", kSelfScores,
            "s3", 1, true});
  Register({"_tofu_selfatt_valatt", kSelfSums, kSelfSums, "3s", 1, false});
  Register({"_tofu_selfatt_valatt_backward", "_backward_interleaved_matmul_selfatt_valatt",
            kSelfSums, "13s", 2, true});
  Register({"_tofu_encdec_qk", kScores, kScores, "12", 1, false});
  Register({"_tofu_encdec_qk_backward", "_backward_interleaved_matmul_encdec_qk", kScores, "s12", 2,
            true});
  Register({"_tofu_encdec_valatt", kSums, kSums, "2s", 1, false});
  Register({"_tofu_encdec_valatt_backward", "_backward_interleaved_matmul_encdec_valatt", kSums,
            "12s", 2, true});
}

[[maybe_unused]] const bool kRegistered = (RegisterAll(), true);

}  // namespace
}  // namespace tofu::nnvm_layer
