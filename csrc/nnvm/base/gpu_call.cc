/*!
 * \file gpu_call.cc
 */
#include "nnvm/base/gpu_call.h"

#include <map>

namespace tofu::nnvm_layer {

const char* KernelTypeName(int type) {
  static const std::map<int, const char*> kNames = {
      {mshadow::kFloat32, "float32"}, {mshadow::kFloat64, "float64"},
      {mshadow::kFloat16, "float16"}, {mshadow::kBfloat16, "bfloat16"},
      {mshadow::kUint8, "uint8"},     {mshadow::kInt8, "int8"},
      {mshadow::kInt32, "int32"},     {mshadow::kInt64, "int64"},
      {mshadow::kBool, "bool"}};
  const auto found = kNames.find(type);
  CHECK(found != kNames.end()) << "there are no kernels for arrays of type code " << type;
  return found->second;
}

cuda::StreamHandle StreamOf(const mxnet::OpContext& context) {
#if MXNET_USE_CUDA
  if (context.run_ctx.ctx.dev_mask() == mxnet::gpu::kDevMask) {
    return mshadow::Stream<mxnet::gpu>::GetStream(context.get_stream<mxnet::gpu>());
  }
#endif
  static_cast<void>(context);
  return nullptr;
}

}  // namespace tofu::nnvm_layer
