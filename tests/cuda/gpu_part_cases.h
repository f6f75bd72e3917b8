/*!
 * \file gpu_part_cases.h
 * \brief Every kernel of a part, with the kinds of its arrays.
 */
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/launch_part.h"
#include "gpu_arrays.h"

namespace tofu_gpu {

using tofu::cuda::Index;
using tofu::cuda::PartArguments;
using tofu::cuda::PartKernel;
using tofu::cuda::PartLoop;

/*!
 * \brief A kernel and its arrays, inputs and outputs, one letter each.
 *
 * d data; v a vector along the dimension; r a vector, in single precision for half-precision data;
 * V a vector in double precision; l numbers per line; L numbers per line in double precision; y a
 * class per line; N a number in double precision; x classes like the data; i indices of positions;
 * I an index per line; t a table of `positions.extent` rows; g the gradient of a lookup. Indices
 * have the type of the data.
 */
struct PartCase {
  PartKernel kernel;
  const char* letters;
  const char* untouched = "";  // arrays of the operator that this kernel does not access
};

inline const std::vector<PartCase>& PartCases() {
  constexpr PartLoop kReducePositions = PartLoop::kReducePositions;
  constexpr PartLoop kMapPositions = PartLoop::kMapPositions;
  constexpr PartLoop kReduceLines = PartLoop::kReduceLines;
  constexpr PartLoop kMapLines = PartLoop::kMapLines;
  constexpr PartLoop kReduceAll = PartLoop::kReduceAll;
  static const std::vector<PartCase> cases = {
      {{"batch_norm.cu", "tofu_batch_norm_sum", kReducePositions}, "d>V"},
      {{"batch_norm.cu", "tofu_batch_norm_squares", kReducePositions}, "dV>V"},
      {{"batch_norm.cu", "tofu_batch_norm_apply", kMapPositions}, "drrVV>drr"},
      {{"batch_norm.cu", "tofu_batch_norm_global", kMapPositions}, "drrrr>drr"},
      {{"batch_norm.cu", "tofu_batch_norm_backward_sums", kReducePositions}, "ddrr>VV"},
      {{"batch_norm.cu", "tofu_batch_norm_backward_apply", kMapPositions}, "ddrrrrrVV>drr"},
      {{"layer_norm.cu", "tofu_layer_norm_sum", kReduceLines}, "d>L"},
      {{"layer_norm.cu", "tofu_layer_norm_squares", kReduceLines}, "dL>L"},
      {{"layer_norm.cu", "tofu_layer_norm_apply", kMapLines}, "dvvLL>dll"},
      {{"layer_norm.cu", "tofu_layer_norm_backward_sums", kReduceLines}, "ddvll>LL"},
      {{"layer_norm.cu", "tofu_layer_norm_backward_parameters", kReducePositions},
       "ddvllLL>dvv",
       "dvLL"},
      {{"layer_norm.cu", "tofu_layer_norm_backward_apply", kMapLines}, "ddvllLL>dvv", "vv"},
      {{"softmax.cu", "tofu_softmax_maximum", kReduceLines}, "d>l"},
      {{"softmax.cu", "tofu_softmax_sum", kReduceLines}, "dl>L"},
      {{"softmax.cu", "tofu_softmax_apply", kMapLines}, "dlL>d"},
      {{"softmax.cu", "tofu_log_softmax_apply", kMapLines}, "dlL>d"},
      {{"softmax.cu", "tofu_softmax_backward_sum", kReduceLines}, "dd>L"},
      {{"softmax.cu", "tofu_log_softmax_backward_sum", kReduceLines}, "d>L"},
      {{"softmax.cu", "tofu_softmax_backward_apply", kMapLines}, "ddL>d"},
      {{"softmax.cu", "tofu_log_softmax_backward_apply", kMapLines}, "ddL>d"},
      {{"softmax_output.cu", "tofu_valid_labels", kReduceAll}, "x>N"},
      {{"softmax_output.cu", "tofu_softmax_output_gradient", kMapLines}, "dy>d"},
      {{"softmax_output.cu", "tofu_softmax_output_gradient", kMapLines}, "dyN>d"},
      {{"loss.cu", "tofu_valid_cells", kReduceAll}, "d>N"},
      {{"loss.cu", "tofu_make_loss_gradient", kMapPositions}, "dN>d", "d"},
      {{"loss.cu", "tofu_scale", kMapPositions}, "d>d"},
      {{"pooling.cu", "tofu_divide_by_window", kMapPositions}, "d>d"},
      {{"take.cu", "tofu_take", PartLoop::kLookUp}, "ti>d"},
      {{"take.cu", "tofu_take_backward", PartLoop::kLookUpSorted}, "gi>d"},
      {{"take.cu", "tofu_pick", PartLoop::kLookUp}, "dI>l"},
      {{"take.cu", "tofu_pick_backward", kMapLines}, "lI>d"},
      {{"by_position.cu", "tofu_one_hot", kMapLines}, "I>d"},
      {{"by_position.cu", "tofu_sequence_mask", kMapLines}, "dI>d"},
  };
  return cases;
}

/*! \brief The shape of the data, and the number of indices of a lookup. */
struct View {
  Index outer, extent, inner;
  Index count = 37;
};

inline bool Is(const PartCase& part, const char* name) {
  return std::strcmp(part.kernel.name, name) == 0;
}

/*! \brief Arguments without tensors. */
inline PartArguments ArgumentsOf(const PartCase& part, const View& view, const std::string& type,
                                 int request) {
  PartArguments a = {};
  a.outer = view.outer;
  a.extent = view.extent;
  a.inner = view.inner;
  a.count = 60;
  a.eps = 1e-3;
  a.momentum = 0.75;
  a.temperature = 1.5;
  a.window = {3, 2, 1, 0, 2 * view.extent - 1, 1};
  a.labels = {2, 0.1f, 1, 1, view.extent + 9, 1};
  a.valid_thresh = 1;
  a.on_value = 3;
  a.off_value = -2;
  a.fix_gamma = view.outer % 2;
  a.is_train = 1;
  const int type_code = type == "float32" ? 0 : type == "float64" ? 1 : 2;  // MXNet's
  a.positions = {view.extent / 3,
                 view.extent,
                 2 * view.extent,
                 view.outer * view.inner,
                 static_cast<int>(view.outer % 4),
                 type_code,
                 1};
  if (Is(part, "tofu_take")) {
    a.positions.count = view.count;
    a.extent = view.count;
  }
  if (Is(part, "tofu_take_backward")) a.positions.count = view.count;
  if (Is(part, "tofu_pick")) a.extent = 1;
  for (int& one : a.requests) one = request;
  a.num_inputs = static_cast<int>(std::strchr(part.letters, '>') - part.letters);
  return a;
}

/*! \brief The type and size of an array. */
inline HostArray::Size SizeOfArray(char letter, const PartCase& part, const View& view,
                                   const std::string& type) {
  const Index lines = view.outer * view.inner;
  const Index looked_up = lines * view.count;
  const Index like_data = Is(part, "tofu_take") && letter == 'd' ? looked_up : lines * view.extent;
  const Index cells = letter == 'N'                 ? 1
                      : letter == 'i'               ? view.count
                      : letter == 'g'               ? looked_up
                      : std::strchr("vrV", letter)  ? view.extent
                      : std::strchr("lLIy", letter) ? lines
                                                    : like_data;
  const bool is_double = std::strchr("VLN", letter) != nullptr;
  const bool is_single = letter == 'r' && type == "float16";
  return {is_double ? "float64" : is_single ? "float32" : type, static_cast<size_t>(cells)};
}

constexpr Index kMostDrawn = 2000;  // different indices; half precision represents all below 2048

/*! \brief Draws positive numbers, as variances and sums of exponentials are. */
inline void DrawInto(char letter, const View& view, std::mt19937* random, HostArray* array) {
  const bool is_index = std::strchr("iIxy", letter) != nullptr;
  const Index most = std::min<Index>(2 * view.extent, kMostDrawn);
  std::uniform_int_distribution<Index> indices(0, most - 1);
  std::uniform_real_distribution<double> numbers(0.5, 1.5);
  for (size_t i = 0; i < array->cells(); ++i) {
    array->Put(i, letter == 'N' ? 7 : is_index ? indices(*random) : numbers(*random));
  }
}

}  // namespace tofu_gpu
