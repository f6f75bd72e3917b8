/*!
 * \file deconvolution.cc
 */
#include "nnvm/execution/deconvolution.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace tofu::nnvm_layer {
namespace {

using mxnet::OpContext;
using mxnet::OpReqType;
using mxnet::TBlob;
using nnvm::NodeAttrs;
using Attributes = std::unordered_map<std::string, std::string>;
using Blobs = std::vector<TBlob>;
using Requests = std::vector<OpReqType>;

constexpr int kPlainRank = 4;  // batch, channels, and the two dimensions of MXNet's kernel

void Run(const char* op, const Attributes& attributes, const OpContext& context,
         const Blobs& inputs, const Requests& requests, const Blobs& outputs) {
  NodeAttrs attrs;
  attrs.op = nnvm::Op::Get(op);
  attrs.dict = attributes;
  if (attrs.op->attr_parser) attrs.op->attr_parser(&attrs);
  nnvm::Op::GetAttr<mxnet::FCompute>("FCompute<cpu>")[attrs.op](attrs, context, inputs, requests,
                                                                outputs);
}

/*! \brief Temporary memory in the shape of a tensor. */
mxnet::NDArray Scratch(const TBlob& like) {
  return mxnet::NDArray(like.shape_, mxnet::Context::CPU(), false, like.type_flag_);
}

/*! \brief Attributes of the convolution that has the channels of `data` as filters. */
Attributes ConvolutionOf(const Attributes& deconvolution, const TBlob& data) {
  Attributes attributes = {{"num_filter", std::to_string(data.shape_[1])}, {"no_bias", "True"}};
  for (const char* name : {"kernel", "stride", "dilate", "pad", "num_group", "workspace"}) {
    const auto given = deconvolution.find(name);
    if (given != deconvolution.end()) attributes.insert(*given);
  }
  return attributes;
}

/*! \brief d_out, data, weight -> d_data, d_weight, d_bias */
void ComputeByConvolution(const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                          const Requests& requests, const Blobs& outputs) {
  const TBlob& d_out = inputs[0];
  const TBlob& data = inputs[1];
  const TBlob& weight = inputs[2];
  const Attributes convolution = ConvolutionOf(attrs.dict, data);
  if (requests[0] == mxnet::kAddTo) {  // Convolution cannot add
    const mxnet::NDArray d_data = Scratch(data);
    Run("Convolution", convolution, context, {d_out, weight}, {mxnet::kWriteTo}, {d_data.data()});
    Run("elemwise_add", {}, context, {outputs[0], d_data.data()}, {mxnet::kWriteInplace},
        {outputs[0]});
  } else if (requests[0] != mxnet::kNullOp) {
    Run("Convolution", convolution, context, {d_out, weight}, {mxnet::kWriteTo}, {outputs[0]});
  }
  if (requests[1] != mxnet::kNullOp) {
    const mxnet::NDArray unused =
        Scratch(d_out);  // kernels of one element write it although it is not requested
    Run("_backward_Convolution", convolution, context, {data, d_out, weight},
        {mxnet::kNullOp, requests[1]}, {unused.data(), outputs[1]});
  }
  if (outputs.size() > 2 && requests[2] != mxnet::kNullOp) {
    Run("sum", {{"axis", "1"}, {"exclude", "True"}}, context, {d_out}, {requests[2]}, {outputs[2]});
  }
}

}  // namespace

mxnet::FCompute DeconvolutionGradient(const mxnet::FCompute& plain) {
  return [plain](const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                 const Requests& requests, const Blobs& outputs) {
    const bool has_plain = inputs[0].ndim() <= kPlainRank;
    has_plain ? plain(attrs, context, inputs, requests, outputs)
              : ComputeByConvolution(attrs, context, inputs, requests, outputs);
  };
}

}  // namespace tofu::nnvm_layer
