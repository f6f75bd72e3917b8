/*!
 * \file layer_norm.cc
 * \brief LayerNorm in parts, which can be split along the normalised dimension.
 *
 * The first parts sum along each line. The workers' sums are added, and the last part computes the
 * outputs from the total sums. There are two passes in double precision, as in batch_norm.cc.
 * `count` is the extent of the complete tensor.
 */
#include "cuda/layer_norm.cuh"

#include "nnvm/parts/part_loops.h"

namespace tofu::nnvm_layer {
namespace {

/*! \brief Compute d_gamma and d_beta, then d_data, which may replace d_out. */
void ComputeBackwardApply(const PartArguments& arguments, const DimensionView& view, int type) {
  RunReduce<cuda::LayerNormBackwardParameters, AtPosition>(arguments, view, type);
  RunMap<cuda::LayerNormBackwardApply, OnLine>(arguments, view, type);
}

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"layer_norm.cu", -1, 1e-5f, true},
    {{"_tofu_layer_norm_sum", {"d", "L"}, kReduce<cuda::DataSum, OnLine>},
     {"_tofu_layer_norm_squares", {"dL", "L"}, kReduce<cuda::DataSquares, OnLine>},
     {"_tofu_layer_norm_apply", {"dvvLL", "dll"}, kMap<cuda::LayerNormApply, OnLine>},
     {"_tofu_layer_norm_backward_sums",
      {"ddvll", "LL"},
      kReduce<cuda::LayerNormBackwardSums, OnLine>},
     {"_tofu_layer_norm_backward_apply",
      {"ddvllLL", "dvv"},
      {ComputeBackwardApply, PartLoop::kMapLines},
      ViewData,
      {{"layer_norm.cu", "tofu_layer_norm_backward_parameters", PartLoop::kReducePositions},
       {"layer_norm.cu", "tofu_layer_norm_backward_apply", PartLoop::kMapLines}}}});
[[maybe_unused]] const bool kInPlace =
    AllowInPlace({"_tofu_layer_norm_apply", "_tofu_layer_norm_backward_apply"});

}  // namespace
}  // namespace tofu::nnvm_layer
