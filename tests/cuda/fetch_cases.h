/*!
 * \file fetch_cases.h
 * \brief Random fetches, and their results by a loop over elements.
 */
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "../core/check.h"
#include "cuda/multi_fetch.cuh"
#include "cuda/prepare_fetch.h"

namespace tofu_test {

using Extents = std::vector<int64_t>;

inline int64_t NumElements(const Extents& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  return elements;
}

inline int64_t ElementAt(const Extents& shape, const Extents& begin, const Extents& at) {
  int64_t element = 0;
  for (size_t d = 0; d < shape.size(); ++d) element = element * shape[d] + begin[d] + at[d];
  return element;
}

/*! \brief The coordinates of an element in row-major order. */
inline Extents CoordinatesOf(const Extents& shape, int64_t element) {
  Extents at(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d]) at[d] = element % shape[d];
  return at;
}

/*! \brief Cuts a box at random; some parts are left out. */
inline void DrawPieces(Random* random, const tofu::Box& box, int depth,
                       std::vector<tofu::Piece>* pieces) {
  const size_t d = random->Draw(0, static_cast<int64_t>(box.size()) - 1);
  if (depth == 0 || box[d].extent() < 2 || random->Draw(0, 3) == 0) {
    if (random->Draw(0, 4) != 0) pieces->push_back({box, {}});
    return;
  }
  const int64_t at = box[d].begin + random->Draw(1, box[d].extent() - 1);
  tofu::Box low = box;
  tofu::Box high = box;
  low[d].end = high[d].begin = at;
  DrawPieces(random, low, depth - 1, pieces);
  DrawPieces(random, high, depth - 1, pieces);
}

/*! \brief Leaves out dimensions of extent 1, and adds some of which one element is read. */
inline void DrawOtherDimensions(Random* random, Extents* shape, tofu::Source* source) {
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
inline tofu::cuda::FetchGeometry DrawGeometry(Random* random, int element_bytes) {
  tofu::cuda::FetchGeometry geometry;
  geometry.element_bytes = element_bytes;
  const int64_t rank = random->Draw(1, 7);
  for (int64_t d = 0; d < rank; ++d) {
    geometry.shape.push_back(random->Draw(1, d + 1 == rank ? 40 : rank > 4 ? 3 : 6));
  }
  DrawPieces(random, tofu::FullBox(geometry.shape), 3, &geometry.pieces);
  const int64_t margin = random->Draw(0, 1) * 4;
  for (tofu::Piece& piece : geometry.pieces) {
    const int64_t sources = random->Draw(1, random->Draw(0, 2) == 0 ? 11 : 2);
    for (int64_t s = 0; s < sources; ++s) {
      tofu::Source source{static_cast<int64_t>(geometry.inputs.size()), {}};
      Extents shape = tofu::ExtentsOf(piece.box.data(), static_cast<int>(rank));
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

template <typename T>
T ReadElement(const char* array, int64_t element) {
  T value;
  std::memcpy(static_cast<void*>(&value), array + element * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void WriteElement(T value, char* array, int64_t element) {
  std::memcpy(array + element * sizeof(T), static_cast<const void*>(&value), sizeof(T));
}

/*! \brief Fills an array with whole numbers up to `most`, which every type sums exactly. */
template <typename T>
void FillAtRandom(Random* random, int64_t elements, int64_t most, char* array) {
  for (int64_t i = 0; i < elements; ++i) {
    WriteElement(static_cast<T>(static_cast<float>(random->Draw(0, most))), array, i);
  }
}

/*! \brief The largest number that is drawn: products of eleven fit every type. */
inline int64_t MostDrawn(int reducer) { return reducer == 3 ? 2 : 30; }

template <typename Sum>
Sum Reduce(int reducer, Sum a, Sum b) {
  if (reducer == 1) return std::max(a, b);
  if (reducer == 2) return std::min(a, b);
  return static_cast<Sum>(reducer == 3 ? a * b : a + b);
}

/*! \brief The sum of the sources of an element of a piece, in their order. */
template <typename T, typename Sum = typename tofu::cuda::SumType<T>::type>
Sum ReduceSources(const tofu::cuda::FetchGeometry& geometry, const tofu::Piece& piece,
                  const tofu::cuda::FetchArguments& arguments, const Extents& at) {
  Sum sum{};
  for (size_t s = 0; s < piece.sources.size(); ++s) {
    const tofu::Source& source = piece.sources[s];
    Extents there;  // the element in the dimensions of the source
    for (size_t d = 0; d < source.begin.size(); ++d) {
      const int64_t along = source.Along(d);
      there.push_back(along == tofu::kNoDimension ? 0 : at[along]);
    }
    const int64_t from = ElementAt(geometry.inputs[source.input], source.begin, there);
    const Sum value = static_cast<Sum>(ReadElement<T>(arguments.inputs[source.input], from));
    sum = s == 0 ? value : Reduce(arguments.reducer, sum, value);
  }
  return sum;
}

/*! \brief The bytes of a region after a fetch, which held `before`. */
template <typename T>
std::vector<char> ExpectRegion(const tofu::cuda::FetchGeometry& geometry,
                               const tofu::cuda::FetchArguments& arguments,
                               const std::vector<char>& before) {
  using Sum = typename tofu::cuda::SumType<T>::type;
  std::vector<char> region = before;
  const auto put = [&](Sum sum, int64_t element) {
    const Sum base = static_cast<Sum>(ReadElement<T>(before.data(), element));
    if (arguments.adds) sum = static_cast<Sum>(base + sum);
    WriteElement(static_cast<T>(sum), region.data(), element);
  };
  const int64_t elements = NumElements(geometry.shape);
  for (int64_t i = 0; i < elements; ++i) {
    put(static_cast<Sum>(static_cast<T>(arguments.fill)), i);
  }
  for (const tofu::Piece& piece : geometry.pieces) {
    const int rank = static_cast<int>(piece.box.size());
    const Extents begin = tofu::BeginsOf(piece.box.data(), rank);
    const Extents extent = tofu::ExtentsOf(piece.box.data(), rank);
    const int64_t in_piece = NumElements(extent);
    for (int64_t element = 0; element < in_piece; ++element) {
      const Extents at = CoordinatesOf(extent, element);
      put(ReduceSources<T>(geometry, piece, arguments, at), ElementAt(geometry.shape, begin, at));
    }
  }
  return region;
}

}  // namespace tofu_test
