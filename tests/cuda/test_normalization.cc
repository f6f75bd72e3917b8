/*!
 * \file test_normalization.cc
 * \brief The kernels of BatchNorm and LayerNorm in parts, thread by thread, against the formulas of
 * the whole operators.
 */
#include <cmath>
#include <vector>

#include "cuda/batch_norm.cuh"
#include "cuda/layer_norm.cuh"
#include "part_tensor.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::AreClose;
using tofu_test::Array;
using tofu_test::Tensor;

/*! \brief Mean and variance of each group of a tensor; group_of(line, position). */
template <typename GroupOf>
void Describe(const Tensor& t, const Array& data, const GroupOf& group_of, Array* mean,
              Array* variance) {
  Array count(mean->size());
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t line = 0; line < t.lines(); ++line) {
      for (int64_t p = 0; p < t.arguments.extent; ++p) {
        const int64_t g = group_of(line, p);
        const double value = data[t.cell(line, p)];
        if (pass == 0) {
          (*mean)[g] += value;
          ++count[g];
        } else {
          (*variance)[g] += (value - (*mean)[g]) * (value - (*mean)[g]) / count[g];
        }
      }
    }
    if (pass == 0) {
      for (size_t g = 0; g < mean->size(); ++g) (*mean)[g] /= count[g];
    }
  }
}

/*! \brief The gradient through (data - mean) / std, where d_normal is that of its result. */
template <typename GroupOf>
Array Differentiate(const Tensor& t, const Array& data, const Array& d_normal,
                    const GroupOf& group_of, const Array& mean, const Array& std) {
  Array sum(mean.size());
  Array projected(mean.size());
  Array count(mean.size());
  const auto for_each = [&](const auto& action) {
    for (int64_t line = 0; line < t.lines(); ++line) {
      for (int64_t p = 0; p < t.arguments.extent; ++p) action(t.cell(line, p), group_of(line, p));
    }
  };
  const auto normal = [&](int64_t i, int64_t g) { return (data[i] - mean[g]) / std[g]; };
  for_each([&](int64_t i, int64_t g) {
    sum[g] += d_normal[i];
    projected[g] += d_normal[i] * normal(i, g);
    ++count[g];
  });
  Array result(data.size());
  for_each([&](int64_t i, int64_t g) {
    result[i] = (d_normal[i] - sum[g] / count[g] - normal(i, g) * projected[g] / count[g]) / std[g];
  });
  return result;
}

void TestBatchNorm(uint64_t seed) {
  Tensor t(seed);
  const int64_t channels = t.arguments.extent;
  t.arguments.count = static_cast<double>(t.lines());
  const auto channel = [](int64_t, int64_t p) { return p; };
  Array data = t.Draw(t.size());
  Array gamma = t.Draw(channels);
  Array beta = t.Draw(channels);
  Array sum(channels), squares(channels), out(t.size()), mean(channels), inverse_std(channels);
  t.Run<AtPosition, DataSum<double>>({&data}, {&sum});
  t.Run<AtPosition, DataSquares<double>>({&data, &sum}, {&squares});
  t.Run<AtPosition, BatchNormApply<double, false>>({&data, &gamma, &beta, &sum, &squares},
                                                   {&out, &mean, &inverse_std});
  Array expected_mean(channels), variance(channels), std(channels), expected(t.size());
  Describe(t, data, channel, &expected_mean, &variance);
  for (int64_t c = 0; c < channels; ++c) std[c] = std::sqrt(variance[c] + t.arguments.eps);
  Array d_out = t.Draw(t.size());
  Array d_normal(t.size()), d_gamma(channels), d_beta(channels);
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t i = t.cell(line, c);
      const double normal = (data[i] - expected_mean[c]) / std[c];
      expected[i] = normal * gamma[c] + beta[c];
      d_normal[i] = d_out[i] * gamma[c];
      d_gamma[c] += d_out[i] * normal;
      d_beta[c] += d_out[i];
    }
  }
  CHECK(AreClose(out, expected));
  CHECK(AreClose(mean, expected_mean));
  const Array expected_d = Differentiate(t, data, d_normal, channel, expected_mean, std);

  Array by_beta(channels), by_gamma(channels), found_gamma(channels), found_beta(channels);
  Array moving_mean = t.Draw(channels);
  Array moving_variance = t.Draw(channels);
  Array next_mean = moving_mean;
  Array next_variance = moving_variance;
  for (int64_t c = 0; c < channels; ++c) {
    next_mean[c] = next_mean[c] * 0.75 + expected_mean[c] * 0.25;
    next_variance[c] = next_variance[c] * 0.75 + variance[c] * 0.25;
  }
  t.Run<AtPosition, BatchNormBackwardSums<double>>({&d_out, &data, &mean, &inverse_std},
                                                   {&by_beta, &by_gamma});
  t.Run<AtPosition, BatchNormBackwardApply<double>>(
      {&d_out, &data, &mean, &inverse_std, &gamma, &moving_mean, &moving_variance, &by_beta,
       &by_gamma},
      {&d_out, &found_gamma, &found_beta});  // d_data takes the place of d_out
  CHECK(AreClose(d_out, expected_d));
  CHECK(AreClose(found_gamma, d_gamma));
  CHECK(AreClose(found_beta, d_beta));
  CHECK(AreClose(moving_mean, next_mean));
  CHECK(AreClose(moving_variance, next_variance));
}

void TestLayerNorm(uint64_t seed) {
  Tensor t(seed);
  const int64_t extent = t.arguments.extent;
  t.arguments.count = static_cast<double>(extent);
  const auto line_of = [](int64_t line, int64_t) { return line; };
  Array data = t.Draw(t.size());
  Array gamma = t.Draw(extent);
  Array beta = t.Draw(extent);
  Array sum(t.lines()), squares(t.lines()), out(t.size()), mean(t.lines()), std(t.lines());
  t.Run<OnLine, DataSum<double>>({&data}, {&sum});
  t.Run<OnLine, DataSquares<double>>({&data, &sum}, {&squares});
  t.Run<OnLine, LayerNormApply<double>>({&data, &gamma, &beta, &sum, &squares},
                                        {&out, &mean, &std});
  Array expected_mean(t.lines()), expected_std(t.lines()), expected(t.size());
  Describe(t, data, line_of, &expected_mean, &expected_std);
  for (double& value : expected_std) value = std::sqrt(value + t.arguments.eps);
  Array d_out = t.Draw(t.size());
  Array d_normal(t.size()), d_gamma = t.Draw(extent), d_beta = t.Draw(extent);
  Array found_gamma = d_gamma;
  Array found_beta = d_beta;
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t p = 0; p < extent; ++p) {
      const int64_t i = t.cell(line, p);
      const double normal = (data[i] - expected_mean[line]) / expected_std[line];
      expected[i] = normal * gamma[p] + beta[p];
      d_normal[i] = d_out[i] * gamma[p];
      d_gamma[p] += d_out[i] * normal;
      d_beta[p] += d_out[i];
    }
  }
  CHECK(AreClose(out, expected));
  CHECK(AreClose(mean, expected_mean));
  CHECK(AreClose(std, expected_std));
  Array d_data = t.Draw(t.size());
  Array expected_d = Differentiate(t, data, d_normal, line_of, expected_mean, expected_std);
  for (int64_t i = 0; i < t.size(); ++i) expected_d[i] += d_data[i];
  Array scaled(t.lines()), projected(t.lines());
  t.Run<OnLine, LayerNormBackwardSums<double>>({&d_out, &data, &gamma, &mean, &std},
                                               {&scaled, &projected});
  t.adds = true;
  const std::vector<Array*> inputs = {&d_out, &data, &gamma, &mean, &std, &scaled, &projected};
  t.Run<AtPosition, LayerNormBackwardParameters<double>>(inputs,
                                                         {nullptr, &found_gamma, &found_beta});
  t.Run<OnLine, LayerNormBackwardApply<double>>(inputs, {&d_data, nullptr, nullptr});
  CHECK(AreClose(d_data, expected_d));
  CHECK(AreClose(found_gamma, d_gamma));
  CHECK(AreClose(found_beta, d_beta));
}

}  // namespace

int main() {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    TestBatchNorm(seed);
    TestLayerNorm(seed);
  }
  return tofu_test::Finish("normalization");
}
