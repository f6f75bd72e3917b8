/*!
 * \file gpu_fetches.cc
 */
#include "gpu_fetches.h"

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cuda/device_fetch.h"
#include "gpu_arrays.h"

namespace tofu_gpu {
namespace {

using tofu::Interval;
using tofu::Piece;
using tofu::Reducer;
using tofu::Source;
using tofu::cuda::DeviceFetch;
using tofu::cuda::FetchCall;
using tofu::cuda::FetchGeometry;

struct FetchCase {
  std::string type;
  bool adds = false;
  Reducer reducer = Reducer::kSum;
  int shift = 0;  // of all arrays, in elements
};

int64_t NumCells(const std::vector<int64_t>& shape) {
  int64_t cells = 1;
  for (int64_t extent : shape) cells *= extent;
  return cells;
}

int64_t Offset(const std::vector<int64_t>& shape, const std::vector<int64_t>& cell) {
  int64_t offset = 0;
  for (size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + cell[d];
  return offset;
}

/*! \brief A region in slabs along one dimension, each with any number of sources; one may be filled
 * and one ends before the region does. */
FetchGeometry DrawGeometry(std::mt19937* random, int element_bytes) {
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(*random);
  };
  FetchGeometry geometry;
  geometry.element_bytes = element_bytes;
  const int64_t rank = draw(1, 4);
  for (int64_t d = 0; d < rank; ++d) geometry.shape.push_back(draw(1, d + 1 == rank ? 90 : 12));
  const size_t along = static_cast<size_t>(draw(0, rank - 1));
  const int64_t num_inputs = draw(1, 5);
  for (int64_t i = 0; i < num_inputs; ++i) {
    geometry.inputs.push_back(geometry.shape);
    for (int64_t& extent : geometry.inputs.back()) extent += draw(0, 3);
  }
  for (int64_t begin = 0; begin < geometry.shape[along];) {
    const int64_t end = std::min(geometry.shape[along], begin + draw(1, geometry.shape[along]));
    Piece piece;
    for (int64_t extent : geometry.shape) piece.box.push_back(Interval{0, extent});
    piece.box[along] = Interval{begin, end};
    if (draw(0, 3) == 0)
      piece.box[rank - 1].end -= draw(0, piece.box[rank - 1].end - piece.box[rank - 1].begin - 1);
    for (int64_t sources = draw(0, 3); sources > 0; --sources) {
      Source source;
      source.input = draw(0, num_inputs - 1);
      for (size_t d = 0; d < geometry.shape.size(); ++d) {
        const int64_t extent = piece.box[d].end - piece.box[d].begin;
        source.begin.push_back(draw(0, geometry.inputs[source.input][d] - extent));
      }
      piece.sources.push_back(source);
    }
    geometry.pieces.push_back(piece);
    begin = end;
  }
  return geometry;
}

double Combine(Reducer reducer, double a, double b) {
  switch (reducer) {
    case Reducer::kMaximum:
      return std::max(a, b);
    case Reducer::kMinimum:
      return std::min(a, b);
    case Reducer::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

/*! \brief What a cell of the region is before anything is added: the reduction of its sources. */
double CellOf(const FetchGeometry& geometry, const std::vector<HostArray>& inputs,
              const FetchCase& one, const std::vector<int64_t>& cell, double fill) {
  for (const Piece& piece : geometry.pieces) {
    bool is_inside = true;
    for (size_t d = 0; d < cell.size(); ++d) {
      is_inside = is_inside && cell[d] >= piece.box[d].begin && cell[d] < piece.box[d].end;
    }
    if (!is_inside || piece.sources.empty()) continue;
    double value = 0;
    for (size_t s = 0; s < piece.sources.size(); ++s) {
      const Source& source = piece.sources[s];
      std::vector<int64_t> at = source.begin;
      for (size_t d = 0; d < cell.size(); ++d) at[d] += cell[d] - piece.box[d].begin;
      const double read = inputs[source.input].Get(
          one.shift + static_cast<size_t>(Offset(geometry.inputs[source.input], at)));
      value = s == 0 ? read : Combine(one.reducer, value, read);
    }
    return value;
  }
  return fill;
}

std::string Describe(const FetchGeometry& geometry, const FetchCase& one) {
  std::string text = one.type + (one.adds ? " adds" : " writes") + ", reducer " +
                     std::to_string(static_cast<int>(one.reducer)) + ", shift " +
                     std::to_string(one.shift) + ", shape";
  for (int64_t extent : geometry.shape) text += " " + std::to_string(extent);
  return text;
}

/*! \brief One fetch; small whole numbers, which every type holds and adds without rounding. */
bool IsRight(const FetchGeometry& geometry, const FetchCase& one, std::mt19937* random) {
  constexpr double kFill = 2;
  const bool is_bool = one.type == "bool";
  std::uniform_int_distribution<int> numbers(is_bool ? 0 : 1, is_bool ? 1 : 4);
  std::vector<HostArray> host;
  std::vector<DeviceMemory> memory;
  const auto add_array = [&](const std::vector<int64_t>& shape) {
    host.emplace_back(HostArray::Size{one.type, static_cast<size_t>(NumCells(shape) + one.shift)});
    for (size_t i = 0; i < host.back().cells(); ++i) host.back().Put(i, numbers(*random));
    memory.emplace_back(Device::Get(0), host.back().bytes.data(), host.back().bytes.size());
  };
  for (const auto& shape : geometry.inputs) add_array(shape);
  add_array(geometry.shape);
  const HostArray before = host.back();
  const Address shift = static_cast<Address>(one.shift * BytesOf(one.type));
  FetchCall call;
  call.fill = kFill;
  call.adds = one.adds;
  call.reducer = one.reducer;
  call.output = reinterpret_cast<void*>(memory.back().address() + shift);
  for (size_t i = 0; i < geometry.inputs.size(); ++i) {
    call.inputs.push_back(reinterpret_cast<void*>(memory[i].address() + shift));
  }
  DeviceFetch fetch(geometry, one.type, 0, std::vector<int>(geometry.inputs.size(), 0));
  fetch.Launch(call);
  HostArray found = before;
  ReadBack(memory.back(), &found);
  int64_t wrong = 0;
  HostArray expected(HostArray::Size{one.type, 1});
  std::vector<int64_t> cell(geometry.shape.size(), 0);
  for (int64_t at = 0; at < NumCells(geometry.shape); ++at) {
    int64_t rest = at;
    for (size_t d = cell.size(); d-- > 0; rest /= geometry.shape[d])
      cell[d] = rest % geometry.shape[d];
    const size_t place = static_cast<size_t>(at + one.shift);
    const double value = CellOf(geometry, host, one, cell, kFill);
    expected.Put(0, one.adds ? value + before.Get(place) : value);
    wrong += found.Get(place) != expected.Get(0) ? 1 : 0;
  }
  for (int i = 0; i < one.shift; ++i) wrong += found.Get(i) != before.Get(i) ? 1 : 0;
  if (wrong > 0) {
    std::printf("fetch %s: %lld cells differ\n", Describe(geometry, one).c_str(),
                static_cast<long long>(wrong));  // NOLINT(runtime/int)
  }
  return wrong == 0;
}

/*! \brief A region that is timed; `goal` is the share of a copy's bandwidth that is aimed at. */
struct MeasuredFetch {
  const char* name;
  FetchGeometry geometry;
  double goal;
};

/*! \brief Shards next to each other: rows of each are narrow, and lie apart in the source. */
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
  for (const MeasuredFetch& one : all) {
    const FetchGeometry& geometry = one.geometry;
    DeviceFetch fetch(geometry, "float32", 0, std::vector<int>(geometry.inputs.size(), 0));
    std::vector<DeviceMemory> memory;
    FetchCall call;
    int64_t moved = NumCells(geometry.shape);
    const auto add_array = [&](const std::vector<int64_t>& shape) {
      memory.push_back(Filled(static_cast<size_t>(NumCells(shape) * kElement)));
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
        one.name, moved_bytes, seconds, moved_bytes / seconds / copy, one.goal);
  }
}

int CheckFetches(int* failures) {
  std::mt19937 random(7);
  int done = 0;
  for (const char* type :
       {"float32", "float64", "float16", "bfloat16", "uint8", "int8", "int32", "int64", "bool"}) {
    for (int round = 0; round < 40; ++round) {
      const Reducer reducer =
          static_cast<Reducer>(std::string(type) == "bool" ? 0 : round / 2 % tofu::kNumReducers);
      const FetchCase one = {type, round % 2 == 1, reducer, round / 8};
      const bool is_staged = round % 5 == 4;
      if (is_staged) setenv("TOFU_STAGE_FETCHES", "1", 1);
      *failures += IsRight(DrawGeometry(&random, BytesOf(type)), one, &random) ? 0 : 1;
      if (is_staged) unsetenv("TOFU_STAGE_FETCHES");
      ++done;
    }
  }
  return done;
}

}  // namespace tofu_gpu
