/*!
 * \file test_softmax.cc
 * \brief The kernels of softmax and of average pooling in parts, thread by thread, against the
 * formulas of the whole operators.
 */
#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/pooling.cuh"
#include "cuda/softmax.cuh"
#include "part_tensor.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::AreClose;
using tofu_test::Array;
using tofu_test::Tensor;

template <bool kIsLog>
void TestSoftmax(uint64_t seed) {
  Tensor t(seed);
  Array data = t.Draw(t.size());
  Array largest(t.lines()), sum(t.lines()), out(t.size());
  t.Run<OnLine, SoftmaxMaximum<double>>({&data}, {&largest});
  t.Run<OnLine, SoftmaxSum<double>>({&data, &largest}, {&sum});
  t.Run<OnLine, SoftmaxApply<double, kIsLog>>({&data, &largest, &sum}, {&out});
  Array d_out = t.Draw(t.size());
  Array expected(t.size()), expected_d(t.size());
  for (int64_t line = 0; line < t.lines(); ++line) {
    double total = 0;
    double d_total = 0;
    const auto exponential = [&](int64_t p) { return std::exp(data[t.cell(line, p)] / 2); };
    for (int64_t p = 0; p < t.arguments.extent; ++p) total += exponential(p);
    for (int64_t p = 0; p < t.arguments.extent; ++p) {
      const double d = d_out[t.cell(line, p)];
      d_total += kIsLog ? d : d * exponential(p) / total;
    }
    for (int64_t p = 0; p < t.arguments.extent; ++p) {
      const int64_t i = t.cell(line, p);
      const double share = exponential(p) / total;
      expected[i] = kIsLog ? std::log(share) : share;
      expected_d[i] = (kIsLog ? d_out[i] - share * d_total : share * (d_out[i] - d_total)) / 2;
    }
  }
  CHECK(AreClose(out, expected));
  Array d_sum(t.lines());
  t.Run<OnLine, SoftmaxBackwardSum<double, kIsLog>>({&d_out, &out}, {&d_sum});
  t.Run<OnLine, SoftmaxBackwardApply<double, kIsLog>>({&d_out, &out, &d_sum}, {&d_out});
  CHECK(AreClose(d_out, expected_d));
}

void TestMaximumKeepsWhatIsNoNumber() {
  Tensor t(1);
  t.arguments.outer = 2;
  t.arguments.extent = 300;
  t.arguments.inner = 1;
  Array data = t.Draw(t.size());
  data[250] = std::numeric_limits<double>::quiet_NaN();
  Array largest(2);
  t.Run<OnLine, SoftmaxMaximum<double>>({&data}, {&largest});
  CHECK(std::isnan(largest[0]));
  CHECK(largest[1] == *std::max_element(data.begin() + 300, data.end()));
}

/*! \brief Sums divided by the cells of their windows, which are counted one by one. */
void TestPooling(uint64_t seed) {
  Tensor t(seed);
  const auto draw = [&](int64_t low, int64_t high) { return t.random.Draw(low, high); };
  Window& window = t.arguments.window;
  window = {draw(1, 5), draw(1, 4), draw(0, 4), draw(-3, 3), draw(4, 200), draw(0, 20)};
  const Array data = t.Draw(t.size());
  Array out = data;  // divided in place
  t.Run<AtPosition, DivideByWindow<double>>({&out}, {&out});
  for (int64_t p = 0; p < t.arguments.extent; ++p) {
    int cells = 0;
    for (Index k = 0; k < window.kernel; ++k) {
      const Index x = (window.first + p) * window.stride - window.pad + k;
      if (x >= window.begin && x < window.end) ++cells;
    }
    for (int64_t line = 0; line < t.lines(); ++line) {
      const int64_t i = t.cell(line, p);
      CHECK(out[i] == data[i] / std::max(1, cells));
    }
  }
}

}  // namespace

int main() {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    TestSoftmax<false>(seed);
    TestSoftmax<true>(seed);
    TestPooling(seed);
  }
  TestMaximumKeepsWhatIsNoNumber();
  return tofu_test::Finish("softmax");
}
