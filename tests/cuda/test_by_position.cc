/*!
 * \file test_by_position.cc
 * \brief The kernels that compare positions with what is data, thread by thread, on a part of the
 * positions.
 */
#include <vector>

#include "cuda/by_position.cuh"
#include "cuda/take.cuh"
#include "part_tensor.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::Array;
using tofu_test::Tensor;

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
  Array lengths(count);
  for (double& length : lengths) {
    length = static_cast<double>(t.random.Draw(0, first + extent + 3)) + 0.5;
  }
  Array data = t.Draw(t.size()), masked = t.Draw(t.size()), d_data = t.Draw(t.size());
  Array d_out = t.Draw(t.lines()), last = t.Draw(t.lines());
  const auto end_of = [&](int64_t line) {
    return static_cast<int64_t>(lengths[line / together]) - first;
  };
  t.Run<OnLine, SequenceMask<double>>({&data, &lengths}, {&masked});
  t.Run<OnLine, PickBackward<double>>({&d_out, &lengths}, {&d_data});
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t p = 0; p < extent; ++p) {
      const int64_t i = t.cell(line, p);
      CHECK(masked[i] == (p < end_of(line) ? data[i] : -7));
      CHECK(d_data[i] == (p + 1 == end_of(line) ? d_out[line] : 0));
    }
  }
  t.arguments.extent = 1;
  t.Run<AtPosition, Pick<double>>({&data, &lengths}, {&last});
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
  t.Run<OnLine, OneHot<double>>({&indices}, {&marked});
  for (int64_t line = 0; line < t.lines(); ++line) {
    for (int64_t p = 0; p < t.arguments.extent; ++p) {
      const bool is_meant = first + p == static_cast<int64_t>(indices[line]);
      CHECK(marked[t.cell(line, p)] == (is_meant ? 3 : -7));
    }
  }
}

}  // namespace

int main() {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    TestSequences(seed);
    TestOneHot(seed);
  }
  return tofu_test::Finish("by_position");
}
