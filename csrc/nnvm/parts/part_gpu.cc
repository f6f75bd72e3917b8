/*!
 * \file part_gpu.cc
 */

#include <algorithm>

#include "nnvm/base/gpu_call.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

static_assert(static_cast<int>(mxnet::kNullOp) == cuda::kNothingRequested &&
                  static_cast<int>(mxnet::kAddTo) == cuda::kAdditionRequested,
              "kernels read MXNet's codes of requests");
static_assert(mshadow::kFloat32 == 0 && mshadow::kFloat64 == 1 && mshadow::kFloat16 == 2 &&
                  mshadow::kUint8 == 3 && mshadow::kInt32 == 4 && mshadow::kInt8 == 5 &&
                  mshadow::kInt64 == 6,
              "cuda::Positions reads MXNet's codes of types");

cuda::PartArguments PackArguments(const nnvm::NodeAttrs& attrs, const mxnet::OpContext& context,
                                  const std::vector<mxnet::TBlob>& inputs,
                                  const std::vector<mxnet::OpReqType>& requests,
                                  const std::vector<mxnet::TBlob>& outputs, ViewOf view_of) {
  CHECK_LE(inputs.size() + outputs.size(), static_cast<size_t>(cuda::kMaxPartTensors));
  CHECK_LE(outputs.size(), static_cast<size_t>(cuda::kMaxPartOutputs));
  const LoweredParam& param = LoweredParamOf(attrs);
  const PartView view = view_of(param, inputs, outputs);
  cuda::PartArguments arguments = {};
  arguments.num_inputs = static_cast<int>(inputs.size());
  void** next = arguments.tensors;
  for (const mxnet::TBlob& input : inputs) *next++ = input.dptr_;
  for (const mxnet::TBlob& output : outputs) *next++ = output.dptr_;
  std::copy(requests.begin(), requests.end(), arguments.requests);
  arguments.outer = view.loop.outer;
  arguments.extent = view.loop.extent;
  arguments.inner = view.loop.inner;
  arguments.count = static_cast<double>(param.count);
  arguments.eps = param.eps;
  arguments.momentum = param.momentum;
  arguments.temperature = param.temperature;
  arguments.window = param.window;
  arguments.labels = param.labels;
  arguments.positions = view.positions;
  arguments.valid_thresh = param.valid_thresh;
  arguments.on_value = param.on_value;
  arguments.off_value = param.off_value;
  arguments.fix_gamma = param.fix_gamma ? 1 : 0;
  arguments.is_train = context.is_train ? 1 : 0;
  return arguments;
}

}  // namespace

mxnet::FCompute ComputeOnGpu(std::vector<cuda::PartKernel> kernels, ViewOf view) {
  return [kernels, view](const nnvm::NodeAttrs& attrs, const mxnet::OpContext& context,
                         const std::vector<mxnet::TBlob>& inputs,
                         const std::vector<mxnet::OpReqType>& requests,
                         const std::vector<mxnet::TBlob>& outputs) {
    const int type = inputs[0].type_flag_;
    CHECK(type == mshadow::kFloat32 || type == mshadow::kFloat64 || type == mshadow::kFloat16)
        << attrs.name << ": there are no kernels for data of type code " << type;
    const auto arguments = PackArguments(attrs, context, inputs, requests, outputs, view);
    CallGpu(attrs.name, [&] {
      for (const cuda::PartKernel& kernel : kernels) {
        cuda::LaunchPart(kernel, KernelTypeName(type), inputs[0].dev_id(), StreamOf(context),
                         arguments);
      }
    });
  };
}

}  // namespace tofu::nnvm_layer
