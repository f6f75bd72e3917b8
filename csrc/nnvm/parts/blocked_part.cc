/*!
 * \file blocked_part.cc
 */
#include "nnvm/parts/blocked_part.h"

#include <utility>

#include "nnvm/parts/channel_blocks.h"

namespace tofu {
namespace nnvm_layer {
namespace {

using Arrays = std::vector<mxnet::NDArray>;

constexpr char kData = 'd';

/*! \brief The block of all data, 1 where it differs. */
int64_t FindCommonBlock(const NodeAttrs& attrs, const Signature& signature, const Arrays& inputs) {
  if (PositiveAxis(inputs[0].shape(), LoweredParamOf(attrs).axis) != 1) return 1;
  const int64_t block = FindBlock(inputs[0]);
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (signature.inputs[i] == kData && FindBlock(inputs[i]) != block) return 1;
  }
  return block;
}

mxnet::FComputeEx ComputeInBlocks(Signature signature, BlockCompute compute) {
  return [signature, compute](const NodeAttrs& attrs, const OpContext& context,
                              const Arrays& inputs, const Requests& requests,
                              const Arrays& outputs) {
    const int64_t block = FindCommonBlock(attrs, signature, inputs);
    Arrays plain;  // as long as their memory is in use
    Blobs read, written;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (block > 1 && signature.inputs[i] == kData) {
        read.push_back(MemoryOf(inputs[i]));
      } else {
        plain.push_back(inputs[i].Reorder2Default());
        read.push_back(plain.back().data());
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (block > 1 && signature.outputs[i] == kData) {
        CHECK_NE(requests[i], mxnet::kAddTo) << attrs.name << ": adds to an array of any layout";
        LayOutInBlocks(block, outputs[i]);
      } else if (requests[i] != mxnet::kAddTo) {
        mxnet::NDArray(outputs[i]).InvalidateMKLDNNData();
      }
      written.push_back(MemoryOf(outputs[i]));
    }
    compute(attrs, context, read, requests, written, block);
  };
}

bool InferStorage(const NodeAttrs&, const int device, mxnet::DispatchMode* mode,
                  std::vector<int>* inputs, std::vector<int>* outputs) {
  for (std::vector<int>* storages : {inputs, outputs}) {
    for (int& storage : *storages) storage = mxnet::kDefaultStorage;
  }
  const bool is_cpu = device == mshadow::cpu::kDevMask;
  *mode = is_cpu ? mxnet::DispatchMode::kFComputeEx : mxnet::DispatchMode::kFCompute;
  return true;
}

}  // namespace

nnvm::Op& RegisterBlockedPart(const char* name, Signature signature,
                              void (*parser)(nnvm::NodeAttrs*), BlockCompute compute,
                              std::vector<cuda::PartKernel> kernels) {
  const auto plain = [compute](const NodeAttrs& attrs, const OpContext& context,
                               const Blobs& inputs, const Requests& requests,
                               const Blobs& outputs) {
    compute(attrs, context, inputs, requests, outputs, 1);
  };
  return RegisterPart(name, signature, parser, plain, std::move(kernels))
      .set_attr<mxnet::FComputeEx>("FComputeEx<cpu>", ComputeInBlocks(signature, compute))
      .set_attr<mxnet::FInferStorageType>("FInferStorageType", InferStorage)
      .set_attr<bool>("TIsMKLDNN", true);  // MXNet makes plain copies for all others
}

}  // namespace nnvm_layer
}  // namespace tofu
