/*!
 * \file channel_blocks.cc
 */
#include "nnvm/parts/channel_blocks.h"

namespace tofu::nnvm_layer {
namespace {

// libmxnet.so exports no function that makes such a description, but accepts it.
mkldnn::memory::desc DescribeBlocks(const mxnet::TShape& shape, int64_t block) {
  mkldnn::memory::desc made;
  dnnl_memory_desc_t& described = made.data;
  described.ndims = shape.ndim();
  described.data_type = dnnl_f32;
  described.format_kind = dnnl_blocked;
  dnnl_blocking_desc_t& blocking = described.format_desc.blocking;
  blocking.inner_nblks = 1;
  blocking.inner_blks[0] = block;
  blocking.inner_idxs[0] = 1;
  int64_t stride = block;
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    described.dims[d] = described.padded_dims[d] = shape[d];
    blocking.strides[d] = stride;
    stride *= d == 1 ? shape[d] / block : shape[d];
  }
  return made;
}

}  // namespace

int64_t FindBlock(const mxnet::NDArray& array) {
  if (!array.IsMKLDNNData() || array.dtype() != mshadow::kFloat32) return 1;
  const mxnet::TShape& shape = array.shape();
  for (int64_t block = kLargestBlock; block >= 4; block /= 2) {
    if (shape.ndim() < 3 || shape[1] % block != 0) continue;
    if (array.GetMKLDNNData(DescribeBlocks(shape, block)) != nullptr) return block;
  }
  return 1;
}

void DeclareBlocks(int64_t block, mxnet::NDArray output) {
  output.CreateMKLDNNData(DescribeBlocks(output.shape(), block));
}

mxnet::TBlob MemoryOf(const mxnet::NDArray& array) {
  return mxnet::TBlob(array.storage_handle().dptr, array.shape(), mshadow::cpu::kDevMask,
                      array.dtype());
}

}  // namespace tofu::nnvm_layer
