/*!
 * \file test_multi_fetch.cc
 * \brief The fetch kernel, run thread by thread, equals a loop over the elements of random regions;
 * tests/nnvm/test_multi_fetch.py sums half precision, and fills with infinity.
 */
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "emulation.h"
#include "fetch_cases.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu_test::Random;

/*! \brief Bytes whose address is a multiple of `alignment` (a power of two) and, up to 8, of no
 * more. The sanitizer finds reads behind them. */
class Memory {
 public:
  Memory(int64_t bytes, int alignment)
      : block_(static_cast<char*>(std::malloc(bytes + (alignment < 16 ? alignment : 16)))),
        data_(block_.get() + (alignment < 16 ? alignment : 16)) {}
  char* data() const { return data_; }

 private:
  struct Free {
    void operator()(char* block) const { std::free(block); }
  };
  std::unique_ptr<char, Free> block_;
  char* data_;
};

template <typename T>
void TestRandomRegion(uint64_t seed) {
  Random random(seed);
  const FetchGeometry geometry = tofu_test::DrawGeometry(&random, sizeof(T));
  const int alignment = std::max<int>(sizeof(T), 1 << random.Draw(0, 4));
  FetchArguments arguments = {};
  arguments.reducer = random.Draw(0, 1) == 0 ? 0 : static_cast<int>(random.Draw(1, 3));
  std::vector<Memory> memory;
  const auto add_array = [&](const tofu_test::Extents& shape) {
    const int64_t elements = tofu_test::NumElements(shape);
    memory.emplace_back(elements * sizeof(T), alignment);
    const int64_t most = tofu_test::MostDrawn(arguments.reducer);
    tofu_test::FillAtRandom<T>(&random, elements, most, memory.back().data());
    return memory.back().data();
  };
  for (size_t i = 0; i < geometry.inputs.size(); ++i) {
    arguments.inputs[i] = add_array(geometry.inputs[i]);
  }
  arguments.output = add_array(geometry.shape);
  arguments.fill = static_cast<double>(random.Draw(0, 3));
  arguments.adds = random.Draw(0, 1) != 0;
  const size_t bytes = tofu_test::NumElements(geometry.shape) * sizeof(T);
  const std::vector<char> before(arguments.output, arguments.output + bytes);
  // Small limits split small regions into many records.
  const int64_t max_items = random.Draw(0, 2) == 0 ? random.Draw(1, 50) : int64_t{1} << 30;
  const FetchTable table = PrepareFetch(geometry, alignment, max_items);
  arguments.pieces = table.pieces.data();
  arguments.sources = table.sources.data();
  arguments.num_pieces = static_cast<int>(table.pieces.size());
  tofu_test::RunThreads({table.tiles, 1, kFetchThreads}, [&] { FetchTile<T>(arguments); });
  const std::vector<char> expected = tofu_test::ExpectRegion<T>(geometry, arguments, before);
  CHECK(std::memcmp(expected.data(), arguments.output, bytes) == 0);
}

template <typename T>
void TestRandomRegions() {
  for (uint64_t seed = 1; seed <= 60; ++seed) TestRandomRegion<T>(seed);
}

}  // namespace

int main() {
  TestRandomRegions<float>();
  TestRandomRegions<double>();
  TestRandomRegions<Half>();
  TestRandomRegions<Bfloat16>();
  TestRandomRegions<uint8_t>();
  TestRandomRegions<int8_t>();
  TestRandomRegions<int32_t>();
  TestRandomRegions<Index>();
  TestRandomRegions<bool>();
  return tofu_test::Finish("multi_fetch");
}
