/*!
 * \file test_parts.cc
 * \brief The kernels of lowered operators, thread by thread, against the formulas of the operators
 * that they are parts of.
 */
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../core/check.h"
#include "cuda/batch_norm.cuh"
#include "cuda/by_position.cuh"
#include "cuda/launch_part.h"
#include "cuda/layer_norm.cuh"
#include "cuda/make_loss.cuh"
#include "cuda/pooling.cuh"
#include "cuda/softmax.cuh"
#include "cuda/softmax_output.cuh"
#include "cuda/take.cuh"
#include "emulation.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::Random;
using Array = std::vector<double>;

/*! \brief A tensor [outer][extent][inner] and the arguments of kernels over it. */
struct Tensor {
  explicit Tensor(uint64_t seed) : random(seed) {
    arguments.outer = random.Draw(1, 5);
    arguments.extent = random.Draw(1, random.Draw(0, 1) == 0 ? 6 : 300);
    arguments.inner = random.Draw(0, 1) == 0 ? 1 : random.Draw(2, 40);
    arguments.eps = 1e-3;
    arguments.momentum = 0.75;
    arguments.temperature = 2;
  }
  int64_t size() const { return arguments.outer * arguments.extent * arguments.inner; }
  int64_t lines() const { return arguments.outer * arguments.inner; }
  int64_t cell(int64_t line, int64_t position) const {
    const int64_t outer = line / arguments.inner;
    return (outer * arguments.extent + position) * arguments.inner + line % arguments.inner;
  }
  Array Draw(int64_t size) {
    Array values(size);
    for (double& value : values) value = static_cast<double>(random.Draw(-1000, 1000)) / 500;
    return values;
  }

  /*! \brief One kernel; requests are to write, or to add. */
  template <typename Members, typename Rule>
  void Run(bool reduces, std::vector<Array*> inputs, std::vector<Array*> outputs) {
    arguments.num_inputs = static_cast<int>(inputs.size());
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    for (size_t i = 0; i < inputs.size(); ++i) {
      arguments.tensors[i] = inputs[i] != nullptr ? inputs[i]->data() : nullptr;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      arguments.requests[i] = outputs[i] == nullptr ? kNothingAsked : adds ? kAdditionAsked : 1;
    }
    tofu_test::LaunchShape shape;
    shape.blocks = static_cast<unsigned>(random.Draw(1, 3));
    shape.blocks_y = reduces ? 1 : static_cast<unsigned>(random.Draw(1, 2));
    shape.threads = kPartThreads;
    shape.threads_wait = true;
    tofu_test::RunThreads(shape, [&] {
      if constexpr (kIsReduction<Rule>) {
        ReduceGroups<Members>(arguments, Rule(arguments));
      } else {
        MapGroups<Members>(arguments, Rule(arguments));
      }
    });
  }

  template <typename Rule, typename = void>
  struct HasResult : std::false_type {};
  template <typename Rule>
  struct HasResult<Rule, std::void_t<typename Rule::Result>> : std::true_type {};
  template <typename Rule>
  static constexpr bool kIsReduction = HasResult<Rule>::value;

  Random random;
  PartArguments arguments = {};
  bool adds = false;
};

bool AreClose(const Array& a, const Array& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-11 * (1 + std::abs(b[i])))) return false;
  }
  return true;
}

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
  t.Run<AtPosition, DataSum<double>>(true, {&data}, {&sum});
  t.Run<AtPosition, DataSquares<double>>(true, {&data, &sum}, {&squares});
  t.Run<AtPosition, BatchNormApply<double, false>>(false, {&data, &gamma, &beta, &sum, &squares},
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
  t.Run<AtPosition, BatchNormBackwardSums<double>>(true, {&d_out, &data, &mean, &inverse_std},
                                                   {&by_beta, &by_gamma});
  t.Run<AtPosition, BatchNormBackwardApply<double>>(
      false,
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
  t.Run<OnLine, DataSum<double>>(true, {&data}, {&sum});
  t.Run<OnLine, DataSquares<double>>(true, {&data, &sum}, {&squares});
  t.Run<OnLine, LayerNormApply<double>>(false, {&data, &gamma, &beta, &sum, &squares},
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
  t.Run<OnLine, LayerNormBackwardSums<double>>(true, {&d_out, &data, &gamma, &mean, &std},
                                               {&scaled, &projected});
  t.adds = true;
  const std::vector<Array*> inputs = {&d_out, &data, &gamma, &mean, &std, &scaled, &projected};
  t.Run<AtPosition, LayerNormBackwardParameters<double>>(true, inputs,
                                                         {nullptr, &found_gamma, &found_beta});
  t.Run<OnLine, LayerNormBackwardApply<double>>(false, inputs, {&d_data, nullptr, nullptr});
  CHECK(AreClose(d_data, expected_d));
  CHECK(AreClose(found_gamma, d_gamma));
  CHECK(AreClose(found_beta, d_beta));
}

template <bool kIsLog>
void TestSoftmax(uint64_t seed) {
  Tensor t(seed);
  Array data = t.Draw(t.size());
  Array largest(t.lines()), sum(t.lines()), out(t.size());
  t.Run<OnLine, SoftmaxMaximum<double>>(true, {&data}, {&largest});
  t.Run<OnLine, SoftmaxSum<double>>(true, {&data, &largest}, {&sum});
  t.Run<OnLine, SoftmaxApply<double, kIsLog>>(false, {&data, &largest, &sum}, {&out});
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
  t.Run<OnLine, SoftmaxBackwardSum<double, kIsLog>>(true, {&d_out, &out}, {&d_sum});
  t.Run<OnLine, SoftmaxBackwardApply<double, kIsLog>>(false, {&d_out, &out, &d_sum}, {&d_out});
  CHECK(AreClose(d_out, expected_d));
}

void TestDivideByWindow(uint64_t seed) {
  Tensor t(seed);
  const int64_t first = t.random.Draw(0, 9);
  t.arguments.window = Window{4, 2, 3, -1, 2 * (first + t.arguments.extent), first};
  Array data = t.Draw(t.size());
  Array expected = data;
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t p = 0; p < t.arguments.extent; ++p) {
      int64_t cells = 0;
      for (int64_t x = 2 * (first + p) - 3, stop = x + 4; x < stop; ++x) {
        if (x >= -1 && x < t.arguments.window.end) ++cells;
      }
      expected[t.cell(line, p)] /= std::max<int64_t>(cells, 1);
    }
  }
  t.Run<AtPosition, DivideByWindow<double>>(false, {&data}, {&data});
  CHECK(data == expected);
}

void TestMaximumKeepsWhatIsNoNumber() {
  Tensor t(1);
  t.arguments.outer = 2;
  t.arguments.extent = 300;
  t.arguments.inner = 1;
  Array data = t.Draw(t.size());
  data[250] = std::numeric_limits<double>::quiet_NaN();
  Array largest(2);
  t.Run<OnLine, SoftmaxMaximum<double>>(true, {&data}, {&largest});
  CHECK(std::isnan(largest[0]));
  CHECK(largest[1] == *std::max_element(data.begin() + 300, data.end()));
}

/*! \brief Sums divided by the cells of their windows, which are counted one by one. */
void TestPooling(uint64_t seed) {
  Tensor t(seed);
  const auto draw = [&](int64_t low, int64_t high) { return t.random.Draw(low, high); };
  Window& window = t.arguments.window;
  window = {draw(1, 5), draw(1, 4), draw(0, 4), draw(-3, 3), draw(4, 200), draw(0, 20)};
  Array data = t.Draw(t.size());
  Array out(t.size());
  t.Run<AtPosition, DivideByWindow<double>>(false, {&data}, {&out});
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

void TestSoftmaxOutput(uint64_t seed) {
  Tensor t(seed);
  const int64_t classes = t.arguments.extent;
  t.arguments.labels.scale = 2;
  t.arguments.labels.smoothing = classes > 1 && seed % 2 == 0 ? 0.25f : 0;
  t.arguments.labels.ignored = -1;
  t.arguments.labels.are_ignored = seed % 3 != 0;
  t.arguments.labels.classes = classes + 5;
  t.arguments.labels.first = seed % 4;
  Array labels(t.lines());
  for (double& label : labels) label = static_cast<double>(t.random.Draw(-1, classes - 1));
  const auto valid = labels.size() - std::count(labels.begin(), labels.end(), -1.0);
  Array count(1), out = t.Draw(t.size()), d_data = t.Draw(t.size()), d_label = t.Draw(t.lines());
  Tensor line = t;  // all labels
  line.arguments.outer = line.arguments.inner = 1;
  line.arguments.extent = t.lines();
  line.Run<OnLine, ValidLabels<double>>(true, {&labels}, {&count});
  CHECK(count[0] == static_cast<double>(valid));
  t.Run<OnLine, SoftmaxOutputGradient<double>>(false, {&out, &labels, &count}, {&d_data, &d_label});
  const float share = 2 / static_cast<float>(std::max<size_t>(1, valid));
  const float wrong = t.arguments.labels.SharePerClass();
  for (int64_t l = 0; l < t.lines(); ++l) {
    CHECK(d_label[l] == 0);
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
  line.Run<OnLine, ValidCells<double>>(true, {&data}, {&count});
  CHECK(count[0] == valid);
  t.Run<AtPosition, MakeLossGradient<double>>(false, {&data, &count}, {&d_data});
  CHECK(d_data == Array(t.size(), 3 / std::max(1.0, valid)));
}

/*! \brief Rows of a part of a table, by indices of which some lie outside, and their sums. */
void TestTake(uint64_t seed) {
  Tensor t(seed);  // what is looked up
  const int64_t count = t.arguments.extent;
  Positions& at = t.arguments.positions;
  const int meaning = seed % 2 == 0 ? kClipped : kWrapped;
  at = {t.random.Draw(0, 5), t.random.Draw(1, 9), 0, count, meaning, 1, 1};
  at.whole = at.first + at.extent + t.random.Draw(0, 5);
  Array indices(count);
  std::vector<int64_t> rows(count);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t index = t.random.Draw(-20, 40);
    indices[n] = static_cast<double>(index);
    const int64_t row = at.meaning == kWrapped
                            ? ((index % at.whole) + at.whole) % at.whole
                            : std::min<int64_t>(std::max<int64_t>(index, 0), at.whole - 1);
    rows[n] = row - at.first;
  }
  const auto is_here = [&](int64_t row) { return row >= 0 && row < at.extent; };
  const auto cell = [&](int64_t line, int64_t row) {
    return (line / t.arguments.inner * at.extent + row) * t.arguments.inner +
           line % t.arguments.inner;
  };
  Array table = t.Draw(t.lines() * at.extent);
  Array taken = t.Draw(t.size()), expected(t.size());
  Array d_table = t.Draw(t.lines() * at.extent), expected_d(t.lines() * at.extent);
  Array d_out = t.Draw(t.size()), d_indices = indices;
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t n = 0; n < count; ++n) {
      if (!is_here(rows[n])) continue;
      expected[t.cell(line, n)] = table[cell(line, rows[n])];
      expected_d[cell(line, rows[n])] += d_out[t.cell(line, n)];
    }
  }
  t.Run<AtPosition, Take<double>>(false, {&table, &indices}, {&taken});
  CHECK(taken == expected);
  Tensor rows_of_table = t;
  rows_of_table.arguments.extent = at.extent;
  // What the kernel clears is not what it reads.
  rows_of_table.Run<AtPosition, TakeBackward<double>>(false, {&d_out, &indices},
                                                      {&d_table, &d_indices});
  CHECK(d_table == expected_d);
  CHECK(d_indices == Array(count));
}

/*! \brief A cell of each line, of which a part is here, and its gradient. */
void TestPick(uint64_t seed) {
  Tensor t(seed);
  const int64_t extent = t.arguments.extent;
  const int64_t first = t.random.Draw(0, 5);
  t.arguments.positions = {first, extent, first + extent + 3, t.lines(), kExact, 1, 1};
  Array data = t.Draw(t.size()), d_data = t.Draw(t.size()), d_out = t.Draw(t.lines());
  Array indices(t.lines()), picked = t.Draw(t.lines()), expected(t.lines()), expected_d(t.size());
  for (int64_t line = 0; line < t.lines(); ++line) {
    const int64_t index = t.random.Draw(0, first + extent + 2);
    indices[line] = static_cast<double>(index);
    if (index < first || index >= first + extent) continue;
    expected[line] = data[t.cell(line, index - first)];
    expected_d[t.cell(line, index - first)] = d_out[line];
  }
  t.Run<OnLine, PickBackward<double>>(false, {&d_out, &indices}, {&d_data});
  CHECK(d_data == expected_d);
  t.arguments.extent = 1;
  t.Run<AtPosition, Pick<double>>(false, {&data, &indices}, {&picked});
  CHECK(picked == expected);
}

/*! \brief Time steps of a part of sequences of some lengths, in which neighbouring lines go
 * together: which are kept, which is the last, and both gradients. */
void TestSequences(uint64_t seed) {
  Tensor t(seed);
  const int64_t extent = t.arguments.extent;
  const int64_t first = t.random.Draw(0, 5);
  const int64_t together = t.arguments.inner % 2 == 0 ? 2 : 1;
  const int64_t count = t.lines() / together;
  t.arguments.positions = {first, extent, first + extent + 3, count, kLength, 1, together};
  t.arguments.off_value = -7;
  Array lengths(count), cleared = t.Draw(count);
  for (double& length : lengths) {
    length = static_cast<double>(t.random.Draw(0, first + extent + 3)) + 0.5;
  }
  Array data = t.Draw(t.size()), masked = t.Draw(t.size()), d_data = t.Draw(t.size());
  Array d_out = t.Draw(t.lines()), last = t.Draw(t.lines());
  const auto end_of = [&](int64_t line) {
    return static_cast<int64_t>(lengths[line / together]) - first;
  };
  t.Run<OnLine, SequenceMask<double>>(false, {&data, &lengths}, {&masked, &cleared});
  CHECK(cleared == Array(count));
  t.Run<OnLine, PickBackward<double>>(false, {&d_out, &lengths}, {&d_data, &cleared});
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t p = 0; p < extent; ++p) {
      const int64_t i = t.cell(line, p);
      CHECK(masked[i] == (p < end_of(line) ? data[i] : -7));
      CHECK(d_data[i] == (p + 1 == end_of(line) ? d_out[line] : 0));
    }
  }
  t.arguments.extent = 1;
  t.Run<AtPosition, Pick<double>>(false, {&data, &lengths}, {&last});
  t.arguments.extent = extent;
  for (int64_t line = 0; line < t.lines(); ++line) {
    const int64_t p = end_of(line) - 1;
    CHECK(last[line] == (p >= 0 && p < extent ? data[t.cell(line, p)] : 0));
  }
}

/*! \brief A part of the depth; indices in it, in other parts, and nowhere. */
void TestOneHot(uint64_t seed) {
  Tensor t(seed);
  t.arguments.inner = 1;
  const int64_t first = t.random.Draw(0, 5);
  t.arguments.positions = {first, t.arguments.extent, 0, t.lines(), kExact, 1, 1};
  t.arguments.on_value = 3;
  t.arguments.off_value = -7;
  Array indices(t.lines()), marked = t.Draw(t.size());
  for (double& index : indices) index = static_cast<double>(t.random.Draw(-2, 12));
  t.Run<OnLine, OneHot<double>>(false, {&indices}, {&marked});
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t p = 0; p < t.arguments.extent; ++p) {
      const bool is_meant = first + p == static_cast<int64_t>(indices[line]);
      CHECK(marked[t.cell(line, p)] == (is_meant ? 3 : -7));
    }
  }
}

/*! \brief Positions and lines of tensors of up to 2^45 cells, without the memory. */
void TestCellsOfHugeTensors(uint64_t seed) {
  Random random(seed);
  PartArguments a = {};
  a.outer = random.Draw(1, 1 << 15);
  a.extent = random.Draw(1, 1 << 15);
  a.inner = random.Draw(0, 3) == 0 ? 1 : random.Draw(1, 1 << 15);
  const Index position = random.Draw(0, a.extent - 1);
  Index other = random.Draw(0, a.outer * a.inner - 1);
  const Index step = random.Draw(1, a.outer * a.inner);
  for (AtPosition at(a, position, other, step); at.is_inside(); at.Next(), other += step) {
    CHECK(at.other() == other);
    CHECK(at.cell() == (other / a.inner * a.extent + position) * a.inner + other % a.inner);
    if (other / step > 20) break;
  }
  const Index line = random.Draw(0, a.outer * a.inner - 1);
  const Index last = a.extent - 1;
  const OnLine on(a, line, last, 1);
  CHECK(on.is_inside() && on.other() == last);
  CHECK(on.cell() == (line / a.inner * a.extent + last) * a.inner + line % a.inner);
}

/*! \brief What GPUs allow, for tensors of any size; no tensor without cells is launched. */
void TestLaunchesAreWithinLimits(uint64_t seed) {
  Random random(seed);
  PartArguments a = {};
  a.outer = random.Draw(0, int64_t{1} << random.Draw(0, 15));
  a.extent = random.Draw(1, int64_t{1} << random.Draw(0, 22));
  a.inner = random.Draw(1, int64_t{1} << random.Draw(0, 22));
  for (PartLoop loop : {PartLoop::kReducePositions, PartLoop::kMapPositions, PartLoop::kReduceLines,
                        PartLoop::kMapLines}) {
    const bool reduces = loop == PartLoop::kReducePositions || loop == PartLoop::kReduceLines;
    const KernelLaunch launch = ShapeLaunch(loop, a, 132);
    CHECK((launch.blocks == 0) == (a.outer == 0));
    CHECK(launch.blocks <= 65535 && launch.blocks_y >= 1 && launch.blocks_y <= 65535);
    CHECK(!reduces || launch.blocks_y == 1);
    CHECK(launch.threads == kPartThreads);
  }
}

}  // namespace

int main() {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    TestBatchNorm(seed);
    TestLayerNorm(seed);
    TestSoftmax<false>(seed);
    TestSoftmax<true>(seed);
    TestPooling(seed);
    TestSoftmaxOutput(seed);
    TestMakeLoss(seed);
    TestTake(seed);
    TestPick(seed);
    TestSequences(seed);
    TestOneHot(seed);
    TestDivideByWindow(seed);
  }
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    TestCellsOfHugeTensors(seed);
    TestLaunchesAreWithinLimits(seed);
  }
  TestMaximumKeepsWhatIsNoNumber();
  return tofu_test::Finish("parts");
}
