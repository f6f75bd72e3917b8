/*!
 * \file fetch_text.h
 * \brief The pieces of a fetch as text, which MXNet saves with a symbol and returns unchecked.
 *
 * A text is a list of `begin:extent:input@begin+input@begin...`, separated by ";", with "," between
 * coordinates. A source whose dimensions differ from the region's names them: `input@begin@along`.
 * Texts come from files, so invalid numbers and boxes outside their region raise errors.
 */
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/program/piece.h"

namespace tofu {

/*! \brief Return the parts of a text between separators. An empty text has no parts. */
inline std::vector<std::string> SplitText(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/*! \brief Parse an integer in [low, high]. \throws std::invalid_argument */
inline int64_t ParseNumber(const std::string& text,
                           int64_t low = std::numeric_limits<int64_t>::min(),
                           int64_t high = std::numeric_limits<int64_t>::max()) {
  char* end = nullptr;
  errno = 0;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || end != text.c_str() + text.size()) Refuse("\"", text, "\" is no integer");
  if (errno == ERANGE || value < low || value > high)
    Refuse(text, " is not a number from ", low, " to ", high);
  return value;
}

/*! \brief Parse a floating-point number, which may be infinite. \throws std::invalid_argument */
inline double ParseReal(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) Refuse("\"", text, "\" is no number");
  return value;
}

inline std::vector<int64_t> ParseCoordinates(const std::string& text) {
  std::vector<int64_t> values;
  for (const std::string& part : SplitText(text, ',')) values.push_back(ParseNumber(part));
  return values;
}

/*! \brief Parse `input@begin` or `input@begin@along`. */
inline Source ParseSource(const std::string& text) {
  const std::vector<std::string> fields = SplitText(text, '@');
  if (fields.size() != 2 && fields.size() != 3) Refuse("\"", text, "\" is no input@begin");
  Source source = {ParseNumber(fields[0]), ParseCoordinates(fields[1])};
  if (fields.size() == 3) source.along = ParseCoordinates(fields[2]);
  return source;
}

/*! \brief Raise std::invalid_argument if a box does not have the dimensions of its region. */
inline void CheckRank(size_t box_rank, size_t ndim) {
  if (box_rank != ndim) Refuse("a piece has not the ", ndim, " dimensions of its region");
}

/*! \brief Raise std::invalid_argument if [begin, begin + extent) is outside [0, whole). The check
 * does not overflow. */
inline void CheckPlace(int64_t begin, int64_t extent, int64_t whole, size_t d) {
  if (begin < 0 || extent < 0 || extent > whole || begin > whole - extent)
    Refuse("a piece from ", begin, " on, of ", extent, ", leaves its region of ", whole,
           " in dimension ", d);
}

inline Piece ParsePiece(const std::string& text, const std::vector<int64_t>& shape) {
  const std::vector<std::string> fields = SplitText(text, ':');
  if (fields.size() != 3) Refuse("\"", text, "\" is no begin:extent:sources");
  Piece piece;
  const std::vector<int64_t> begin = ParseCoordinates(fields[0]);
  const std::vector<int64_t> extent = ParseCoordinates(fields[1]);
  CheckRank(begin.size(), shape.size());
  CheckRank(extent.size(), shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    CheckPlace(begin[d], extent[d], shape[d], d);
    piece.box.push_back({begin[d], begin[d] + extent[d]});
  }
  for (const std::string& source : SplitText(fields[2], '+'))
    piece.sources.push_back(ParseSource(source));
  return piece;
}

/*!
 * \brief Check that pieces are inside a region of `shape`, and read existing inputs.
 * \throws std::invalid_argument
 */
inline void CheckPieces(const std::vector<Piece>& pieces, const std::vector<int64_t>& shape,
                        int64_t num_inputs) {
  const size_t ndim = shape.size();
  for (const Piece& piece : pieces) {
    CheckRank(piece.box.size(), ndim);
    for (size_t d = 0; d < ndim; ++d)
      CheckPlace(piece.box[d].begin, piece.box[d].end - piece.box[d].begin, shape[d], d);
    if (piece.sources.empty()) Refuse("a piece without sources");
    for (const Source& source : piece.sources) {
      if (source.input < 0 || source.input >= num_inputs)
        Refuse("there are ", num_inputs, " inputs, a piece reads number ", source.input);
      const std::string problem = FindWrongDimensions(source, piece.box);
      if (!problem.empty()) Refuse(problem);
      for (size_t d = 0; d < source.begin.size(); ++d) {
        const int64_t begin = source.begin[d];
        const int64_t extent = source.ExtentAlong(d, piece.box);
        if (begin < 0 || begin > std::numeric_limits<int64_t>::max() - extent)
          Refuse("a source begins outside");
      }
    }
  }
}

/*! \brief Parse the pieces of a region of `shape` over `num_inputs` inputs. */
inline std::vector<Piece> ParsePieces(const std::string& text, const std::vector<int64_t>& shape,
                                      int64_t num_inputs) {
  std::vector<Piece> pieces;
  for (const std::string& part : SplitText(text, ';')) pieces.push_back(ParsePiece(part, shape));
  CheckPieces(pieces, shape, num_inputs);
  return pieces;
}

/*! \brief Write pieces as a text that ParsePieces reads. */
inline std::string WritePieces(const std::vector<Piece>& pieces) {
  std::ostringstream out;
  const auto write = [&out](size_t ndim, const auto& value) {
    for (size_t d = 0; d < ndim; ++d) out << (d == 0 ? "" : ",") << value(d);
  };
  for (size_t p = 0; p < pieces.size(); ++p) {
    if (p != 0) out << ';';
    const Box& box = pieces[p].box;
    write(box.size(), [&](size_t d) { return box[d].begin; });
    out << ':';
    write(box.size(), [&](size_t d) { return box[d].extent(); });
    for (size_t s = 0; s < pieces[p].sources.size(); ++s) {
      const Source& source = pieces[p].sources[s];
      out << (s == 0 ? ':' : '+') << source.input << '@';
      write(source.begin.size(), [&](size_t d) { return source.begin[d]; });
      if (source.along.empty()) continue;
      out << '@';
      write(source.along.size(), [&](size_t d) { return source.along[d]; });
    }
  }
  return out.str();
}

}  // namespace tofu
