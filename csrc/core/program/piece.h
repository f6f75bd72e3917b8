/*!
 * \file piece.h
 * \brief A piece of a fetch: a box of its output, and the sources that are combined there.
 *
 * Programs encode pieces as numbers (program.h), MXNet saves them as text (fetch_text.h), and
 * kernels use them as strides (strided_piece.h).
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/geometry/box.h"

namespace tofu {

// Marks a dimension of a source that its piece lacks. One element is read along it.
constexpr int64_t kNoDimension = -1;

/*! \brief A box of the fetch's input number `input`. It begins at `begin`, and has the piece's
 * extents. */
struct Source {
  int64_t input = 0;
  std::vector<int64_t> begin;
  // For each dimension of the input, a dimension of the piece, ascending, or kNoDimension. All
  // other dimensions of the piece have extent 1. Empty if the dimensions are the same.
  std::vector<int64_t> along = {};

  /*! \brief Return the piece's dimension for dimension `d` of the input. */
  int64_t Along(size_t d) const { return along.empty() ? static_cast<int64_t>(d) : along[d]; }

  /*! \brief Return the extent that a piece with this box reads along the input's dimension `d`. */
  int64_t ExtentAlong(size_t d, const Box& box) const {
    return Along(d) == kNoDimension ? 1 : box[Along(d)].extent();
  }
};

/*! \brief The function that combines the sources of a piece. */
enum class Reducer : int { kSum, kMaximum, kMinimum, kProduct };
constexpr int kNumReducers = 4;

/*! \brief A box of a fetch's output, and the sources that are combined there. */
struct Piece {
  Box box;
  std::vector<Source> sources;
};

/*! \brief Describe what is wrong with the dimensions of a source, or return an empty text. */
inline std::string FindWrongDimensions(const Source& source, const Box& box) {
  const auto rank = static_cast<int64_t>(box.size());
  if (source.along.empty())
    return source.begin.size() == box.size() ? "" : "a source has not the region's dimensions";
  if (source.along.size() != source.begin.size())
    return "a source does not name one dimension of the region for each of its own";
  int64_t last = kNoDimension;
  std::vector<char> is_read(box.size(), 0);
  for (int64_t at : source.along) {
    if (at == kNoDimension) continue;
    if (at <= last || at >= rank)
      return "a source names dimensions that the region has not, or not in its order";
    last = at;
    is_read[at] = 1;
  }
  for (size_t d = 0; d < box.size(); ++d) {
    if (!is_read[d] && box[d].extent() != 1)
      return "a piece of several cells lies along a dimension that its source has not";
  }
  return "";
}

/*! \brief Restrict a piece to a box inside it. */
inline void Narrow(Box box, Piece* piece) {
  for (Source& source : piece->sources) {
    for (size_t d = 0; d < source.begin.size(); ++d) {
      const int64_t at = source.Along(d);
      if (at != kNoDimension) source.begin[d] += box[at].begin - piece->box[at].begin;
    }
  }
  piece->box = std::move(box);
}

}  // namespace tofu
