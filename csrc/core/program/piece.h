/*!
 * \file piece.h
 * \brief A piece of a fetch: the one form in which emission writes it, programs and texts are read,
 * kernels are prepared and graphs are checked.
 *
 * It is an array of numbers where it travels between modules (program.h) and text where MXNet saves
 * it (fetch_text.h); a kernel lays it over arrays (strided_piece.h).
 */
#ifndef TOFU_CORE_PROGRAM_PIECE_H_
#define TOFU_CORE_PROGRAM_PIECE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/geometry/box.h"

namespace tofu {

// A dimension of a source that is none of its piece, which reads one cell of it.
constexpr int64_t kNoDimension = -1;

/*! \brief A box of `inputs[input]` of the fetch, of the piece's extents, that starts at `begin` in
 * that entry's coordinates. */
struct Source {
  int64_t input = 0;
  std::vector<int64_t> begin;
  // By dimension of the entry, ascending: that of the piece, or kNoDimension. Those of the piece
  // that are not in it have extent 1. Empty where the dimensions are the same.
  std::vector<int64_t> along = {};

  /*! \brief The piece's dimension that dimension `d` of the entry is. */
  int64_t Along(size_t d) const { return along.empty() ? static_cast<int64_t>(d) : along[d]; }

  /*! \brief How many cells of the entry's dimension `d` a piece of this box reads. */
  int64_t ExtentAlong(size_t d, const Box& box) const {
    return Along(d) == kNoDimension ? 1 : box[Along(d)].extent();
  }
};

/*! \brief How the sources of a piece become its value. */
enum class Reducer : int { kSum, kMaximum, kMinimum, kProduct };
constexpr int kNumReducers = 4;

/*! \brief A box of a fetch's output; its value is the sum of the sources, or what else the fetch's
 * Reducer makes of them. */
struct Piece {
  Box box;
  std::vector<Source> sources;
};

/*! \brief What is wrong with the dimensions that a source names of its piece, or nothing. */
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

/*! \brief Keeps of a piece what lies in `box`, a part of its own. */
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

#endif  // TOFU_CORE_PROGRAM_PIECE_H_
