/*!
 * \file pooling.cc
 * \brief Division of a window's sum by its number of elements, along one dimension, for average
 * pooling.
 *
 * A window of `kernel` elements begins at (first + position) * stride - pad. Only elements in
 * [begin, end) count. `first` is where the worker's part begins.
 */
#include "cuda/pooling.cuh"

#include "nnvm/parts/part_loops.h"

namespace tofu::nnvm_layer {
namespace {

[[maybe_unused]] const bool kRegistered =
    RegisterParts({"pooling.cu", 2},
                  {{"_tofu_divide_by_window", {"d", "d"}, kMap<cuda::DivideByWindow, AtPosition>}});
[[maybe_unused]] const bool kInPlace = AllowInPlace({"_tofu_divide_by_window"});

}  // namespace
}  // namespace tofu::nnvm_layer
