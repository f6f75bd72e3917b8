/*!
 * \file gpu_fetches.cc
 */
#include "gpu_fetches.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/device_fetch.h"
#include "fetch_cases.h"
#include "gpu_arrays.h"

namespace tofu_gpu {
namespace {

using tofu::Interval;
using tofu::Piece;
using tofu::cuda::DeviceFetch;
using tofu::cuda::FetchCall;
using tofu::cuda::FetchGeometry;

struct FetchCase {
  std::string type;
  bool adds = false;
  int reducer = 0;
  int shift = 0;  // of all arrays, in elements
};

/*! \brief A random fetch of small whole numbers, which every type sums without rounding. */
template <typename T>
bool IsRight(const FetchCase& fetch_case, tofu_test::Random* random) {
  const FetchGeometry geometry = tofu_test::DrawGeometry(random, sizeof(T));
  const size_t shift = fetch_case.shift * sizeof(T);
  tofu::cuda::FetchArguments expected = {};
  std::vector<HostArray> host;
  std::vector<DeviceMemory> memory;
  const auto add_array = [&](const tofu_test::Extents& shape) {
    const int64_t elements = tofu_test::NumElements(shape) + fetch_case.shift;
    host.emplace_back(HostArray::Size{fetch_case.type, static_cast<size_t>(elements)});
    const int64_t most = tofu_test::MostDrawn(fetch_case.reducer);
    tofu_test::FillAtRandom<T>(random, elements, most, host.back().bytes.data());
    memory.emplace_back(Device::Get(0), host.back().bytes.data(), host.back().bytes.size());
    return reinterpret_cast<void*>(memory.back().address() + shift);
  };
  FetchCall call;
  for (const auto& shape : geometry.inputs) call.inputs.push_back(add_array(shape));
  call.output = add_array(geometry.shape);
  call.fill = 2;
  call.adds = fetch_case.adds;
  call.reducer = static_cast<tofu::Reducer>(fetch_case.reducer);
  expected.fill = call.fill;
  expected.adds = call.adds;
  expected.reducer = fetch_case.reducer;
  for (size_t i = 0; i < geometry.inputs.size(); ++i) {
    expected.inputs[i] = host[i].bytes.data() + shift;
  }
  DeviceFetch fetch(geometry, fetch_case.type, 0, std::vector<int>(geometry.inputs.size(), 0));
  fetch.Launch(call);
  const std::vector<char>& bytes = host.back().bytes;
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(shift);
  const auto region = tofu_test::ExpectRegion<T>(geometry, expected, {begin, bytes.end()});
  HostArray found = host.back();
  ReadBack(memory.back(), &found);
  if (std::equal(bytes.begin(), begin, found.bytes.begin()) &&
      std::memcmp(region.data(), found.bytes.data() + shift, region.size()) == 0) {
    return true;
  }
  std::printf("fetch %s%s, reducer %d, shift %d, %zu dimensions: elements differ\n",
              fetch_case.type.c_str(), fetch_case.adds ? " adds" : " writes", fetch_case.reducer,
              fetch_case.shift, geometry.shape.size());
  return false;
}

/*! \brief A region that is timed; `goal` is the intended share of a copy's bandwidth. */
struct MeasuredFetch {
  const char* name;
  FetchGeometry geometry;
  double goal;
};

/*! \brief Shards side by side, whose narrow rows are apart in the source. */
FetchGeometry SideBySide(int64_t parts, int64_t rows, int64_t columns) {
  FetchGeometry geometry;
  geometry.shape = {rows, parts * columns};
  for (int64_t i = 0; i < parts; ++i) {
    geometry.inputs.push_back({rows, 2 * columns});
    geometry.pieces.push_back({{{0, rows}, {i * columns, (i + 1) * columns}}, {{i, {0, 0}}}});
  }
  return geometry;
}

/*! \brief The sum of arrays. */
FetchGeometry SumOf(int64_t sources, int64_t cells) {
  FetchGeometry geometry;
  geometry.shape = {cells};
  geometry.pieces = {{{{0, cells}}, {}}};
  for (int64_t i = 0; i < sources; ++i) {
    geometry.inputs.push_back({cells});
    geometry.pieces[0].sources.push_back({i, {0}});
  }
  return geometry;
}

}  // namespace

void MeasureFetches(size_t bytes, int runs, double copy) {
  constexpr int kElement = 4;
  const int64_t cells = static_cast<int64_t>(bytes) / kElement;
  const auto rows = [&](int64_t columns) { return SideBySide(4, cells / 4 / columns, columns); };
  const std::vector<MeasuredFetch> all = {
      {"one row", rows(cells / 4), 0.9},       {"rows of 4 KiB", rows(1024), 0.9},
      {"rows of 512 B", rows(128), 0.7},       {"rows of 64 B", rows(16), 0.4},
      {"sum of 8", SumOf(8, cells / 4), 0.85},
  };
  for (const MeasuredFetch& measured : all) {
    const FetchGeometry& geometry = measured.geometry;
    DeviceFetch fetch(geometry, "float32", 0, std::vector<int>(geometry.inputs.size(), 0));
    std::vector<DeviceMemory> memory;
    FetchCall call;
    int64_t moved = tofu_test::NumElements(geometry.shape);
    const auto add_array = [&](const std::vector<int64_t>& shape) {
      memory.push_back(Filled(static_cast<size_t>(tofu_test::NumElements(shape) * kElement)));
      return reinterpret_cast<void*>(memory.back().address());
    };
    for (const auto& shape : geometry.inputs) call.inputs.push_back(add_array(shape));
    call.output = add_array(geometry.shape);
    for (const Piece& piece : geometry.pieces) {
      int64_t read = static_cast<int64_t>(piece.sources.size());
      for (const Interval& interval : piece.box) read *= interval.extent();
      moved += read;
    }
    const double seconds = MedianSeconds(runs, [&] { fetch.Launch(call); });
    const double moved_bytes = static_cast<double>(moved * kElement);
    std::printf(
        "{\"what\": \"fetch\", \"kernel\": \"tofu_multi_fetch\", \"type\": \"float32\", \"view\": "
        "\"%s\", "
        "\"bytes\": %.0f, \"seconds\": %.6g, \"share\": %.4f, \"goal\": %.2f}\n",
        measured.name, moved_bytes, seconds, moved_bytes / seconds / copy, measured.goal);
  }
}

int CheckFetches(int* failures) {
  tofu_test::Random random(7);
  int done = 0;
  for (const char* type :
       {"float32", "float64", "float16", "bfloat16", "uint8", "int8", "int32", "int64", "bool"}) {
    for (int round = 0; round < 40; ++round) {
      const int reducer = std::string(type) == "bool" ? 0 : round / 2 % tofu::kNumReducers;
      const FetchCase fetch_case = {type, round % 2 == 1, reducer, round / 8};
      const bool is_staged = round % 5 == 4;
      if (is_staged) setenv("TOFU_STAGE_FETCHES", "1", 1);
      *failures += WithType(type, [&](auto element) {
        return IsRight<decltype(element)>(fetch_case, &random) ? 0 : 1;
      });
      if (is_staged) unsetenv("TOFU_STAGE_FETCHES");
      ++done;
    }
  }
  return done;
}

}  // namespace tofu_gpu
