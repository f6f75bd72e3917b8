/*!
 * \file batch_norm.cc
 * \brief BatchNorm in parts, which can be split by batch and space.
 *
 * The first parts sum the elements of each channel. The workers' sums are added, and the last part
 * computes the outputs from the total sums. There are two passes over the data, the second around
 * the mean of the complete tensor. So the variance is accurate for any mean. Sums are in double
 * precision. `count` is the number of elements of the complete tensor per channel.
 */
#include "cuda/batch_norm.cuh"

#include "nnvm/parts/part_loops.h"

namespace tofu::nnvm_layer {
namespace {

template <typename T>
using ApplyOwn = cuda::BatchNormApply<T, false>;
template <typename T>
using ApplyGlobal = cuda::BatchNormApply<T, true>;

std::vector<uint32_t> ListFixedGamma(const NodeAttrs& attrs) {
  return LoweredParamOf(attrs).arguments.fix_gamma ? std::vector<uint32_t>{1}
                                                   : std::vector<uint32_t>{};
}

[[maybe_unused]] const bool kRegistered = RegisterBlockedParts(
    {"batch_norm.cu", 1, 1e-3f},
    {{"_tofu_batch_norm_sum", {"d", "V"}, kReduce<cuda::DataSum, AtPosition>},
     {"_tofu_batch_norm_squares", {"dV", "V"}, kReduce<cuda::DataSquares, AtPosition>},
     {"_tofu_batch_norm_apply", {"drrVV", "drr"}, kMap<ApplyOwn, AtPosition>},
     {"_tofu_batch_norm_global", {"drrrr", "drr"}, kMap<ApplyGlobal, AtPosition>},
     {"_tofu_batch_norm_backward_sums",
      {"ddrr", "VV"},
      kReduce<cuda::BatchNormBackwardSums, AtPosition>},
     {"_tofu_batch_norm_backward_apply",
      {"ddrrrrrVV", "drr"},
      kMap<cuda::BatchNormBackwardApply, AtPosition>}});
[[maybe_unused]] const bool kInPlace = AllowInPlace(
    {"_tofu_batch_norm_apply", "_tofu_batch_norm_global", "_tofu_batch_norm_backward_apply"});
[[maybe_unused]] const bool kMutates = [] {
  const auto set = [](const char* name, const nnvm::FMutateInputs& list) {
    dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__(name).set_attr<nnvm::FMutateInputs>(
        "FMutateInputs", list);
  };
  set("_tofu_batch_norm_apply", ListFixedGamma);
  set("_tofu_batch_norm_global", ListFixedGamma);
  set("_tofu_batch_norm_backward_apply",
      [](const NodeAttrs&) { return std::vector<uint32_t>{5, 6}; });
  return true;
}();

}  // namespace
}  // namespace tofu::nnvm_layer
