/*!
 * \file emulated_parts.h
 * \brief Every kernel of a part for the element type TOFU_TYPE; included once per type.
 */
#include "cuda/batch_norm.cu"
#include "cuda/by_position.cu"
#include "cuda/layer_norm.cu"
#include "cuda/loss.cu"
#include "cuda/pooling.cu"
#include "cuda/softmax.cu"
#include "cuda/softmax_output.cu"
#include "cuda/take.cu"
