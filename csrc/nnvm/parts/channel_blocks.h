/*!
 * \file channel_blocks.h
 * \brief Arrays as oneDNN's convolutions lay them out on CPUs: [batch][channels / block][space]
 * [block], with channels in dimension 1.
 */
#ifndef TOFU_NNVM_PARTS_CHANNEL_BLOCKS_H_
#define TOFU_NNVM_PARTS_CHANNEL_BLOCKS_H_

#include <cstdint>

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief The largest block. Numbers of channels that it does not divide take more memory in blocks
 * than in MXNet's plain layout. */
constexpr int64_t kLargestBlock = 16;

/*! \brief How many channels are neighbours in the array; 1 where it has another layout, or none of
 * oneDNN's. Inside of an operator alone. */
int64_t FindBlock(const mxnet::NDArray& array);

/*! \brief Says that an output is written in blocks. Inside of an operator alone. */
void LayOutInBlocks(int64_t block, mxnet::NDArray output);

/*! \brief The memory of an array, whatever its layout. */
mxnet::TBlob MemoryOf(const mxnet::NDArray& array);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_PARTS_CHANNEL_BLOCKS_H_
