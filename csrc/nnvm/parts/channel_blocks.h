/*!
 * \file channel_blocks.h
 * \brief Arrays in the layout of oneDNN's convolutions on CPUs: [batch][channels /
 * block][space][block]. Channels are dimension 1.
 */
#pragma once

#include <cstdint>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief The largest block. Channels that it does not divide take more memory in blocks than in
 * the plain layout. */
constexpr int64_t kLargestBlock = 16;

/*! \brief Return the number of channels in a block, or 1 for other layouts. Call only inside an
 * operator. */
int64_t FindBlock(const mxnet::NDArray& array);

/*! \brief Declare that an output is written in blocks. Call only inside an operator. */
void DeclareBlocks(int64_t block, mxnet::NDArray output);

/*! \brief The memory of an array, whatever its layout. */
mxnet::TBlob MemoryOf(const mxnet::NDArray& array);

}  // namespace tofu::nnvm_layer
