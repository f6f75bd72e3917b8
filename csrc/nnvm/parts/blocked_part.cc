/*!
 * \file blocked_part.cc
 */

#include "nnvm/parts/channel_blocks.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

using Arrays = std::vector<mxnet::NDArray>;

constexpr char kData = 'd';

/*! \brief The block that all data has, or 1. */
int64_t FindCommonBlock(const NodeAttrs& attrs, const Signature& signature, const Arrays& inputs) {
  if (PositiveAxis(inputs[0].shape(), LoweredParamOf(attrs).axis) != 1) return 1;
  const int64_t block = FindBlock(inputs[0]);
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (signature.inputs[i] == kData && FindBlock(inputs[i]) != block) return 1;
  }
  return block;
}

mxnet::FComputeEx ComputeInBlocks(const Part& part) {
  return [part](const NodeAttrs& attrs, const OpContext& context, const Arrays& inputs,
                const Requests& requests, const Arrays& outputs) {
    const Signature& signature = part.signature;
    const int64_t block = FindCommonBlock(attrs, signature, inputs);
    Arrays plain;  // keeps memory alive
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
        DeclareBlocks(block, outputs[i]);
      } else if (requests[i] != mxnet::kAddTo) {
        mxnet::NDArray(outputs[i]).InvalidateMKLDNNData();
      }
      written.push_back(MemoryOf(outputs[i]));
    }
    PartRun run = MakeRun(attrs, context, read, requests, written, part.view);
    run.view.block = block;
    part.method.compute(run.arguments, run.view, read[0].type_flag_);
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

bool RegisterBlockedParts(const PartFamily& family, const std::vector<Part>& parts) {
  RegisterParts(family, parts);
  for (const Part& part : parts) {
    dmlc::Registry<nnvm::Op>::Get()
        ->__REGISTER_OR_GET__(part.name)
        .set_attr<mxnet::FComputeEx>("FComputeEx<cpu>", ComputeInBlocks(part))
        .set_attr<mxnet::FInferStorageType>("FInferStorageType", InferStorage)
        .set_attr<bool>("TIsMKLDNN", true);  // for all other operators MXNet makes plain copies
  }
  return true;
}

}  // namespace tofu::nnvm_layer
