/*!
 * \file softmax.cc
 * \brief softmax and log_softmax in parts, which can be split along the normalised dimension.
 *
 * The first parts compute the maximum and the sum of exponentials of each line. These are combined
 * over the workers, and the last part computes the outputs from them. Sums are in double precision.
 */
#include "cuda/softmax.cuh"

#include "nnvm/parts/part_loops.h"

namespace tofu::nnvm_layer {
namespace {

template <typename T>
using Softmax = cuda::SoftmaxApply<T, false>;
template <typename T>
using LogSoftmax = cuda::SoftmaxApply<T, true>;
template <typename T>
using SoftmaxSums = cuda::SoftmaxBackwardSum<T, false>;
template <typename T>
using LogSoftmaxSums = cuda::SoftmaxBackwardSum<T, true>;
template <typename T>
using SoftmaxGradient = cuda::SoftmaxBackwardApply<T, false>;
template <typename T>
using LogSoftmaxGradient = cuda::SoftmaxBackwardApply<T, true>;

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"softmax.cu", -1},
    {{"_tofu_softmax_maximum", {"d", "l"}, kReduce<cuda::SoftmaxMaximum, OnLine>},
     {"_tofu_softmax_sum", {"dl", "L"}, kReduce<cuda::SoftmaxSum, OnLine>},
     {"_tofu_softmax_apply", {"dlL", "d"}, kMap<Softmax, OnLine>},
     {"_tofu_softmax_output_apply",
      {"dlLn", "d"},
      kMap<Softmax, OnLine>,
      ViewData,
      {{"softmax.cu", "tofu_softmax_apply", PartLoop::kMapLines}}},  // labels are not read
     {"_tofu_log_softmax_apply", {"dlL", "d"}, kMap<LogSoftmax, OnLine>},
     {"_tofu_softmax_backward_sum", {"dd", "L"}, kReduce<SoftmaxSums, OnLine>},
     {"_tofu_log_softmax_backward_sum", {"d", "L"}, kReduce<LogSoftmaxSums, OnLine>},
     {"_tofu_softmax_backward_apply", {"ddL", "d"}, kMap<SoftmaxGradient, OnLine>},
     {"_tofu_log_softmax_backward_apply", {"ddL", "d"}, kMap<LogSoftmaxGradient, OnLine>}});
[[maybe_unused]] const bool kInPlace =
    AllowInPlace({"_tofu_softmax_apply", "_tofu_softmax_output_apply", "_tofu_log_softmax_apply",
                  "_tofu_softmax_backward_apply", "_tofu_log_softmax_backward_apply"});

}  // namespace
}  // namespace tofu::nnvm_layer
