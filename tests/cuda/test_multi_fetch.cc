/*!
 * \file test_multi_fetch.cc
 * \brief The fetch kernel, thread by thread, against a loop over the cells of random regions.
 */
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../core/check.h"
#include "cuda/multi_fetch.cuh"
#include "cuda/prepare_fetch.h"
#include "emulation.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)
using tofu::Box;
using tofu::Piece;
using tofu::Source;
using tofu_test::Random;

using Extents = std::vector<int64_t>;

/*! \brief Bytes whose address is a multiple of `alignment` (a power of two) and, up to 8, of no
 * more. The sanitizer sees what is read after them. */
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
T DrawElement(Random* random, int64_t most) {
  return static_cast<T>(static_cast<float>(random->Draw(0, most)));
}

int64_t NumCells(const Extents& shape) {
  int64_t cells = 1;
  for (int64_t extent : shape) cells *= extent;
  return cells;
}

int64_t CellAt(const Extents& shape, const Extents& begin, const Extents& at) {
  int64_t cell = 0;
  for (size_t d = 0; d < shape.size(); ++d) cell = cell * shape[d] + begin[d] + at[d];
  return cell;
}

/*! \brief Cuts a box at random; some parts are left out. */
void DrawPieces(Random* random, const Box& box, int depth, std::vector<Piece>* pieces) {
  const size_t d = random->Draw(0, static_cast<int64_t>(box.size()) - 1);
  if (depth == 0 || box[d].extent() < 2 || random->Draw(0, 3) == 0) {
    if (random->Draw(0, 4) != 0) pieces->push_back({box, {}});
    return;
  }
  const int64_t at = box[d].begin + random->Draw(1, box[d].extent() - 1);
  Box low = box;
  Box high = box;
  low[d].end = high[d].begin = at;
  DrawPieces(random, low, depth - 1, pieces);
  DrawPieces(random, high, depth - 1, pieces);
}

/*! \brief Leaves out dimensions of one cell, and adds some of which one cell is read. */
void DrawOtherDimensions(Random* random, Extents* shape, Source* source) {
  const Extents extents = std::move(*shape);
  shape->clear();
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1 && shape->size() + 1 < extents.size() && random->Draw(0, 1) == 0) continue;
    shape->push_back(extents[d]);
    source->along.push_back(static_cast<int64_t>(d));
    if (random->Draw(0, 3) != 0) continue;
    shape->push_back(1);
    source->along.push_back(tofu::kNoDimension);
  }
}

/*! \brief A region of up to 7 dimensions whose pieces have up to 11 sources; often whole rows. */
FetchGeometry DrawGeometry(Random* random, int element_bytes) {
  FetchGeometry geometry;
  geometry.element_bytes = element_bytes;
  const int64_t rank = random->Draw(1, 7);
  for (int64_t d = 0; d < rank; ++d) {
    geometry.shape.push_back(random->Draw(1, d + 1 == rank ? 40 : rank > 4 ? 3 : 6));
  }
  DrawPieces(random, tofu::WholeBox(geometry.shape), 3, &geometry.pieces);
  const int64_t margin = random->Draw(0, 1) * 4;
  std::vector<Piece> sourced;
  for (Piece& piece : geometry.pieces) {
    const int64_t sources = random->Draw(1, random->Draw(0, 2) == 0 ? 11 : 2);
    for (int64_t s = 0; s < sources; ++s) {
      Source source{static_cast<int64_t>(geometry.inputs.size()), {}};
      Extents shape = ExtentsOf(piece.box.data(), static_cast<int>(rank));
      if (random->Draw(0, 3) == 0) DrawOtherDimensions(random, &shape, &source);
      for (int64_t& extent : shape) {
        source.begin.push_back(random->Draw(0, margin));
        extent += source.begin.back() + random->Draw(0, margin);
      }
      geometry.inputs.push_back(shape);
      piece.sources.push_back(source);
    }
  }
  return geometry;
}

template <typename Sum>
Sum Reduce(int reducer, Sum a, Sum b) {
  if (reducer == 1) return std::max(a, b);
  if (reducer == 2) return std::min(a, b);
  return static_cast<Sum>(reducer == 3 ? a * b : a + b);
}

/*! \brief The same sums in the same order, one cell after the other. */
template <typename T>
std::vector<T> ExpectRegion(const FetchGeometry& geometry, const FetchArguments& arguments,
                            std::vector<T> region) {
  using Sum = typename SumType<T>::type;
  std::vector<Sum> sums(region.size(), static_cast<Sum>(static_cast<T>(arguments.fill)));
  for (const Piece& piece : geometry.pieces) {
    const int rank = static_cast<int>(piece.box.size());
    const Extents extent = ExtentsOf(piece.box.data(), rank);
    const int64_t cells = NumCells(extent);
    for (int64_t cell = 0; cell < cells; ++cell) {
      Extents at(rank);
      int64_t rest = cell;
      for (size_t d = at.size(); d-- > 0; rest /= extent[d]) at[d] = rest % extent[d];
      Sum& sum = sums[CellAt(geometry.shape, BeginsOf(piece.box.data(), rank), at)];
      for (size_t s = 0; s < piece.sources.size(); ++s) {
        const Source& source = piece.sources[s];
        Extents there;  // the cell in the dimensions of the source
        for (size_t d = 0; d < source.begin.size(); ++d) {
          const int64_t along = source.Along(d);
          there.push_back(along == tofu::kNoDimension ? 0 : at[along]);
        }
        const int64_t from = CellAt(geometry.inputs[source.input], source.begin, there);
        T element;
        std::memcpy(static_cast<void*>(&element), arguments.inputs[source.input] + from * sizeof(T),
                    sizeof(T));
        const Sum value = static_cast<Sum>(element);
        if (s == 0) {
          sum = value;
        } else {
          sum = Reduce(arguments.reducer, sum, value);
        }
      }
    }
  }
  for (size_t i = 0; i < region.size(); ++i) {
    if (arguments.adds) sums[i] = static_cast<Sum>(static_cast<Sum>(region[i]) + sums[i]);
    region[i] = static_cast<T>(sums[i]);
  }
  return region;
}

template <typename T>
void FillAtRandom(Random* random, int64_t cells, int64_t most, char* data) {
  for (int64_t i = 0; i < cells; ++i) {
    const T element = DrawElement<T>(random, most);
    std::memcpy(data + i * sizeof(T), static_cast<const void*>(&element), sizeof(T));
  }
}

template <typename T>
void TestRandomRegion(uint64_t seed) {
  Random random(seed);
  const FetchGeometry geometry = DrawGeometry(&random, sizeof(T));
  const int alignment = std::max<int>(sizeof(T), 1 << random.Draw(0, 4));
  FetchArguments arguments = {};
  arguments.reducer = random.Draw(0, 1) == 0 ? 0 : static_cast<int>(random.Draw(1, 3));
  const int64_t most = arguments.reducer == 3 ? 2 : 30;  // products of eleven fit every type
  std::vector<Memory> memory;
  for (const Extents& shape : geometry.inputs) {
    memory.emplace_back(NumCells(shape) * sizeof(T), alignment);
    FillAtRandom<T>(&random, NumCells(shape), most, memory.back().data());
    arguments.inputs[memory.size() - 1] = memory.back().data();
  }
  const int64_t cells = NumCells(geometry.shape);
  const Memory output(cells * sizeof(T), alignment);
  FillAtRandom<T>(&random, cells, most, output.data());
  arguments.output = output.data();
  arguments.fill = static_cast<double>(random.Draw(0, 3));
  arguments.adds = random.Draw(0, 1) != 0;
  std::vector<T> before(cells);
  std::memcpy(static_cast<void*>(before.data()), output.data(), cells * sizeof(T));

  // Small limits make many records out of small regions.
  const int64_t max_items = random.Draw(0, 2) == 0 ? random.Draw(1, 50) : int64_t{1} << 30;
  const FetchTable table = PrepareFetch(geometry, alignment, max_items);
  arguments.pieces = table.pieces.data();
  arguments.sources = table.sources.data();
  arguments.num_pieces = static_cast<int>(table.pieces.size());
  tofu_test::RunThreads({table.tiles, 1, kFetchThreads}, [&] { FetchTile<T>(arguments); });
  const std::vector<T> expected = ExpectRegion(geometry, arguments, before);
  CHECK(std::memcmp(static_cast<const void*>(expected.data()), output.data(), cells * sizeof(T)) ==
        0);
}

template <typename T>
void TestRandomRegions() {
  for (uint64_t seed = 1; seed <= 150; ++seed) TestRandomRegion<T>(seed);
}

void TestTruthsAreJoined() {
  FetchGeometry geometry;
  geometry.shape = {5};
  geometry.inputs = {{5}, {5}};
  geometry.pieces = {{tofu::WholeBox({5}), {{0, {0}}, {1, {0}}}}};
  geometry.element_bytes = 1;
  const FetchTable table = PrepareFetch(geometry, 16);
  const bool a[5] = {false, true, false, true, true};
  const bool b[5] = {false, false, true, true, false};
  bool joined[5];
  FetchArguments arguments = {};
  arguments.output = reinterpret_cast<char*>(joined);
  arguments.pieces = table.pieces.data();
  arguments.sources = table.sources.data();
  arguments.num_pieces = 1;
  arguments.inputs[0] = reinterpret_cast<const char*>(a);
  arguments.inputs[1] = reinterpret_cast<const char*>(b);
  tofu_test::RunThreads({table.tiles, 1, kFetchThreads}, [&] { FetchTile<bool>(arguments); });
  for (int i = 0; i < 5; ++i) CHECK(joined[i] == (a[i] || b[i]));
}

/*! \brief One cell: the sources 2048, 1 and 1, of which halves can only add the sum. */
float SumOfHalves(bool adds, double fill, bool is_filled) {
  FetchGeometry geometry;
  geometry.shape = {1};
  geometry.inputs = {{1}, {1}, {1}};
  geometry.element_bytes = 2;
  if (!is_filled) geometry.pieces = {{tofu::WholeBox({1}), {{0, {0}}, {1, {0}}, {2, {0}}}}};
  const FetchTable table = PrepareFetch(geometry, 2);
  const Half sources[3] = {Half(2048.0f), Half(1.0f), Half(1.0f)};
  Half output(1.0f);
  FetchArguments arguments = {};
  arguments.output = reinterpret_cast<char*>(&output);
  arguments.pieces = table.pieces.data();
  arguments.sources = table.sources.data();
  arguments.num_pieces = 1;
  arguments.fill = fill;
  arguments.adds = adds;
  for (int i = 0; i < 3; ++i) arguments.inputs[i] = reinterpret_cast<const char*>(&sources[i]);
  tofu_test::RunThreads({table.tiles, 1, kFetchThreads}, [&] { FetchTile<Half>(arguments); });
  return static_cast<float>(output);
}

void TestHalvesAreSummedInFloat() {
  CHECK(SumOfHalves(false, 0, false) == 2050);  // one by one, rounded to halves: 2048
  CHECK(SumOfHalves(true, 0, false) == 2052);   // 2051, which lies in the middle, to the even one
  CHECK(SumOfHalves(false, -INFINITY, true) == -INFINITY);  // a halo of max pooling
  CHECK(SumOfHalves(true, 2, true) == 3);
}

}  // namespace

int main() {
  TestHalvesAreSummedInFloat();
  TestTruthsAreJoined();
  TestRandomRegions<float>();
  TestRandomRegions<double>();
  TestRandomRegions<Half>();
  TestRandomRegions<Bfloat16>();
  TestRandomRegions<uint8_t>();
  TestRandomRegions<int8_t>();
  TestRandomRegions<int32_t>();
  TestRandomRegions<Index>();
  return tofu_test::Finish("multi_fetch");
}
