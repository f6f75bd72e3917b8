/*!
 * \file test_losses.cc
 * \brief The kernels of the gradients of losses in parts, thread by thread, against the formulas of
 * the whole operators.
 */
#include <algorithm>
#include <vector>

#include "cuda/loss.cuh"
#include "cuda/softmax_output.cuh"
#include "part_tensor.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::Array;
using tofu_test::Tensor;

void TestSoftmaxOutput(uint64_t seed) {
  Tensor t(seed);
  const int64_t classes = t.arguments.extent;
  t.arguments.labels.scale = 2;
  t.arguments.labels.smoothing = classes > 1 && seed % 2 == 0 ? 0.25f : 0;
  t.arguments.labels.ignored = -1;
  t.arguments.labels.are_ignored = seed % 3 != 0;
  t.arguments.labels.classes = classes + 5;
  t.arguments.labels.first = seed % 4;
  const int64_t last =
      seed % 6 == 0 ? -1 : classes - 1;  // maybe no label is valid, and none ignored
  Array labels(t.lines());
  for (double& label : labels) label = static_cast<double>(t.random.Draw(-1, last));
  const auto valid = labels.size() - std::count(labels.begin(), labels.end(), -1.0);
  Array count(1), out = t.Draw(t.size()), d_data = t.Draw(t.size());
  Tensor line = t;  // all labels
  line.arguments.outer = line.arguments.inner = 1;
  line.arguments.extent = t.lines();
  line.Run<OnLine, ValidLabels<double>>({&labels}, {&count});
  CHECK(count[0] == static_cast<double>(valid));
  t.Run<OnLine, SoftmaxOutputGradient<double>>({&out, &labels, &count}, {&d_data});
  const float share = 2 / static_cast<float>(std::max<size_t>(1, valid));
  const float wrong = t.arguments.labels.SharePerClass();
  for (int64_t l = 0; l < t.lines(); ++l) {
    const bool is_ignored = t.arguments.labels.are_ignored && labels[l] == -1;
    for (int64_t p = 0; p < classes; ++p) {
      const double wanted =
          p + t.arguments.labels.first == labels[l] ? 1 - t.arguments.labels.smoothing : wrong;
      const double expected = is_ignored ? 0 : (out[t.cell(l, p)] - wanted) * share;
      CHECK(d_data[t.cell(l, p)] == expected);
    }
  }
}

void TestMakeLoss(uint64_t seed) {
  Tensor t(seed);
  Array data = t.Draw(t.size()), d_data = t.Draw(t.size()), count(1);
  t.arguments.valid_thresh = seed % 3 == 0 ? 2 : data[0];  // maybe above all of them
  t.arguments.labels.scale = 3;
  const double valid = static_cast<double>(std::count_if(
      data.begin(), data.end(), [&](double cell) { return cell > t.arguments.valid_thresh; }));
  Tensor line = t;  // all cells
  line.arguments.outer = line.arguments.inner = 1;
  line.arguments.extent = t.size();
  line.Run<OnLine, ValidCells<double>>({&data}, {&count});
  CHECK(count[0] == valid);
  t.Run<AtPosition, MakeLossGradient<double>>({&data, &count}, {&d_data});
  CHECK(d_data == Array(t.size(), 3 / std::max(1.0, valid)));
  Array scaled = t.Draw(t.size());
  t.Run<AtPosition, Scale<double>>({&data}, {&scaled});
  for (int64_t i = 0; i < t.size(); ++i) CHECK(scaled[i] == data[i] * 3);
}

}  // namespace

int main() {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    TestSoftmaxOutput(seed);
    TestMakeLoss(seed);
  }
  return tofu_test::Finish("losses");
}
