/*!
 * \file softmax_output.cc
 * \brief The gradient of SoftmaxOutput, which can be split by classes.
 *
 * It may be divided by the number of valid labels. This number is added over the workers, so the
 * gradient can also be split by batch or position.
 */
#include "cuda/softmax_output.cuh"

#include "nnvm/parts/part_loops.h"

namespace tofu::nnvm_layer {
namespace {

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"softmax_output.cu", -1},
    {{"_tofu_valid_labels", {"d", "N"}, kReduceAll<cuda::ValidLabels>},
     {"_tofu_softmax_output_gradient", {"dn", "d"}, kMap<cuda::SoftmaxOutputGradient, OnLine>},
     {"_tofu_softmax_output_gradient_by_count",
      {"dnN", "d"},
      kMap<cuda::SoftmaxOutputGradient, OnLine>,
      ViewData,
      {{"softmax_output.cu", "tofu_softmax_output_gradient", PartLoop::kMapLines}}}});

}  // namespace
}  // namespace tofu::nnvm_layer
