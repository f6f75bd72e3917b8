/*!
 * \file loss.cc
 * \brief The gradient of MakeLoss, divided by the number of valid elements on all workers, and the
 * gradient of a regression output from its differences.
 */
#include "cuda/loss.cuh"

#include "nnvm/parts/part_loops.h"

namespace tofu::nnvm_layer {
namespace {

[[maybe_unused]] const bool kRegistered = RegisterParts(
    {"loss.cu", 0},
    {{"_tofu_valid_cells", {"d", "N"}, kReduceAll<cuda::ValidCells>},
     {"_tofu_make_loss_gradient", {"dN", "d"}, kMap<cuda::MakeLossGradient, AtPosition>},
     {"_tofu_scale", {"d", "d"}, kMap<cuda::Scale, AtPosition>}});
[[maybe_unused]] const bool kInPlace = AllowInPlace({"_tofu_scale"});

}  // namespace
}  // namespace tofu::nnvm_layer
