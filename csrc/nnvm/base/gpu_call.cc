/*!
 * \file gpu_call.cc
 */
#include "nnvm/base/gpu_call.h"

namespace tofu {
namespace nnvm_layer {

const char* KernelTypeName(int type) {
  switch (type) {
    case mshadow::kFloat32:
      return "float32";
    case mshadow::kFloat64:
      return "float64";
    case mshadow::kFloat16:
      return "float16";
    case mshadow::kBfloat16:
      return "bfloat16";
    case mshadow::kUint8:
      return "uint8";
    case mshadow::kInt8:
      return "int8";
    case mshadow::kInt32:
      return "int32";
    case mshadow::kInt64:
      return "int64";
    case mshadow::kBool:
      return "bool";
    default:
      LOG(FATAL) << "there are no kernels for arrays of type code " << type;
      return "";
  }
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

}  // namespace nnvm_layer
}  // namespace tofu
