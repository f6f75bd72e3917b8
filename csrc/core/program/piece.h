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
#include <utility>
#include <vector>

#include "core/geometry/box.h"

namespace tofu {

/*! \brief A box of `inputs[input]` of the fetch, of the piece's extents, that starts at `begin` in
 * that entry's coordinates. */
struct Source {
  int64_t input = 0;
  std::vector<int64_t> begin;
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

/*! \brief Keeps of a piece what lies in `box`, a part of its own. */
inline void Narrow(Box box, Piece* piece) {
  for (Source& source : piece->sources) {
    for (size_t d = 0; d < box.size(); ++d) source.begin[d] += box[d].begin - piece->box[d].begin;
  }
  piece->box = std::move(box);
}

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_PIECE_H_
