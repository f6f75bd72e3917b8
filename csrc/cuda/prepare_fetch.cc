/*!
 * \file prepare_fetch.cc
 */
#include "cuda/prepare_fetch.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace tofu {
namespace cuda {
namespace {

using Extents = std::vector<int64_t>;

constexpr int64_t kWideRow = 4096;       // bytes; narrower rows of several pieces share lines
constexpr int64_t kBandBytes = 2 << 20;  // of the output: half the cache of a small GPU
constexpr int64_t kMostBands = 1024;     // of an output; beyond, bands are larger

/*! \brief One dimension of a piece: its extent, and the distance in bytes of neighbours in the
 * output and in each source. */
struct Dimension {
  int64_t extent;
  std::vector<int64_t> strides;
};

/*! \brief A piece by addresses: bytes from the beginning of the output, then of each source. */
struct StridedPiece {
  std::vector<int64_t> offsets;
  std::vector<Dimension> dimensions;  // innermost first, none of extent 1
  std::vector<int64_t> inputs;        // of the sources
  int64_t item_bytes;

  int64_t num_items() const {
    int64_t items = 1;
    for (const Dimension& dimension : dimensions) items *= dimension.extent;
    return items;
  }

  /*! \brief Bytes of the output from the first to behind the last one. */
  int64_t span() const {
    return dimensions.empty() ? item_bytes
                              : dimensions.back().extent * dimensions.back().strides[0];
  }

  /*! \brief Bytes of the output that the innermost dimension writes without a gap. */
  int64_t row_bytes() const {
    if (dimensions.empty() || dimensions.front().strides[0] != item_bytes) return item_bytes;
    return dimensions.front().extent * item_bytes;
  }
};

/*! \brief Row-major strides of a tensor, in bytes. */
Extents ByteStrides(const Extents& shape, int64_t element_bytes) {
  Extents strides(shape.size(), element_bytes);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/*! \brief Adds the output or a source to a piece whose dimensions have their extents. */
void AddTensor(const Extents& shape, const Extents& begin, int64_t element_bytes,
               StridedPiece* piece) {
  const Extents strides = ByteStrides(shape, element_bytes);
  int64_t offset = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    offset += begin[d] * strides[d];
    piece->dimensions[shape.size() - 1 - d].strides.push_back(strides[d]);
  }
  piece->offsets.push_back(offset);
}

/*! \brief Drops dimensions of extent 1 and joins those that are one row in every tensor. */
void MergeDimensions(std::vector<Dimension>* dimensions) {
  std::vector<Dimension> merged;
  for (Dimension& dimension : *dimensions) {
    if (dimension.extent == 1) continue;
    bool goes_on = !merged.empty();
    for (size_t t = 0; goes_on && t < dimension.strides.size(); ++t) {
      goes_on = dimension.strides[t] == merged.back().strides[t] * merged.back().extent;
    }
    if (goes_on) {
      merged.back().extent *= dimension.extent;
    } else {
      merged.push_back(std::move(dimension));
    }
  }
  *dimensions = std::move(merged);
}

/*! \brief The largest power of two that divides all of a list and `bound`, a power of two. */
int64_t CommonPower(int64_t bound, const std::vector<int64_t>& numbers) {
  for (int64_t number : numbers) {
    while (number % bound != 0) bound /= 2;
  }
  return bound;
}

/*! \brief Counts the innermost dimension in items instead of elements. */
void ChooseItem(int64_t element_bytes, int64_t alignment, StridedPiece* piece) {
  piece->item_bytes = element_bytes;
  if (piece->dimensions.empty()) return;
  Dimension& row = piece->dimensions.front();
  for (int64_t stride : row.strides) {
    if (stride != element_bytes) return;  // neighbours are apart: one by one
  }
  int64_t bytes = CommonPower(std::min<int64_t>(kLargestItem, alignment), piece->offsets);
  bytes = CommonPower(bytes, {row.extent * element_bytes});
  for (size_t d = 1; d < piece->dimensions.size(); ++d) {
    bytes = CommonPower(bytes, piece->dimensions[d].strides);
  }
  piece->item_bytes = std::max(bytes, element_bytes);
  row.extent = row.extent * element_bytes / piece->item_bytes;
  for (int64_t& stride : row.strides) stride = piece->item_bytes;
  MergeDimensions(&piece->dimensions);  // the row may be one item now
}

StridedPiece MakeStrided(const FetchGeometry& geometry, const Piece& piece, int alignment) {
  StridedPiece strided;
  for (size_t d = piece.extent.size(); d-- > 0;)
    strided.dimensions.push_back({piece.extent[d], {}});
  AddTensor(geometry.shape, piece.begin, geometry.element_bytes, &strided);
  for (const Source& source : piece.sources) {
    AddTensor(geometry.inputs[source.input], source.begin, geometry.element_bytes, &strided);
    strided.inputs.push_back(source.input);
  }
  MergeDimensions(&strided.dimensions);
  ChooseItem(geometry.element_bytes, alignment, &strided);
  return strided;
}

void AppendRecord(const StridedPiece& piece, FetchTable* table) {
  PieceRecord record = {};
  record.offset = piece.offsets[0];
  record.num_items = static_cast<unsigned>(piece.num_items());
  record.first_tile = table->tiles;
  const int rank = static_cast<int>(piece.dimensions.size());
  record.rank = std::max(1, rank);
  record.item_bytes = static_cast<int>(piece.item_bytes);
  record.first_source = static_cast<int>(table->sources.size());
  record.num_sources = static_cast<int>(piece.inputs.size());
  for (int d = 0; d < rank; ++d) {
    record.extents[d] = MakeDivider(static_cast<uint32_t>(piece.dimensions[d].extent));
    record.strides[d] = piece.dimensions[d].strides[0];
  }
  for (size_t s = 0; s < piece.inputs.size(); ++s) {
    SourceRecord source = {};
    source.offset = piece.offsets[s + 1];
    source.input = piece.inputs[s];
    for (int d = 0; d < rank; ++d) source.strides[d] = piece.dimensions[d].strides[s + 1];
    table->sources.push_back(source);
  }
  const int64_t tiles = (static_cast<int64_t>(record.num_items) + kTileItems - 1) / kTileItems;
  if (table->tiles + tiles > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("a fetch has more than 2^31 tiles");
  }
  table->tiles += static_cast<uint32_t>(tiles);
  table->pieces.push_back(record);
}

/*! \brief What a part of a piece may be. */
struct PartLimits {
  int64_t items;
  int64_t band_bytes;  // of the output, where rows are narrow

  bool Allow(const StridedPiece& piece) const {
    return piece.num_items() <= items && piece.dimensions.size() <= kMaxDims &&
           (piece.span() <= band_bytes || piece.row_bytes() >= kWideRow);
  }
};

/*! \brief Halves the outermost dimension until each part is within the limits. */
void Cut(StridedPiece piece, const PartLimits& limits, std::vector<StridedPiece>* parts) {
  if (piece.num_items() == 0) return;
  if (limits.Allow(piece)) {
    parts->push_back(std::move(piece));
    return;
  }
  StridedPiece second = piece;
  const int64_t half = piece.dimensions.back().extent / 2;
  piece.dimensions.back().extent = half;
  second.dimensions.back().extent -= half;
  for (size_t t = 0; t < second.offsets.size(); ++t) {
    second.offsets[t] += half * second.dimensions.back().strides[t];
  }
  for (StridedPiece* part : {&piece, &second}) {
    if (part->dimensions.back().extent == 1) part->dimensions.pop_back();
    Cut(std::move(*part), limits, parts);
  }
}

/*! \brief What is left of a box without another one, as disjoint boxes. */
void Subtract(Piece box, const Piece& inner, std::vector<Piece>* rest) {
  for (size_t d = 0; d < box.begin.size(); ++d) {
    const int64_t begin = std::max(box.begin[d], inner.begin[d]);
    const int64_t end = std::min(box.begin[d] + box.extent[d], inner.begin[d] + inner.extent[d]);
    if (begin >= end) {  // they do not meet
      rest->push_back(std::move(box));
      return;
    }
  }
  for (size_t d = 0; d < box.begin.size(); ++d) {
    const int64_t box_end = box.begin[d] + box.extent[d];
    const int64_t begin = std::max(box.begin[d], inner.begin[d]);
    const int64_t end = std::min(box_end, inner.begin[d] + inner.extent[d]);
    Piece side = box;
    side.extent[d] = begin - box.begin[d];
    if (side.extent[d] > 0) rest->push_back(side);
    side.begin[d] = end;
    side.extent[d] = box_end - end;
    if (side.extent[d] > 0) rest->push_back(side);
    box.begin[d] = begin;
    box.extent[d] = end - begin;
  }
}

/*! \brief The cells of the region that lie in no piece, as disjoint boxes. */
std::vector<Piece> FindFilled(const FetchGeometry& geometry) {
  Piece region;
  region.begin.assign(geometry.shape.size(), 0);
  region.extent = geometry.shape;
  std::vector<Piece> filled = {region};
  for (const Piece& piece : geometry.pieces) {
    std::vector<Piece> rest;
    for (Piece& box : filled) Subtract(std::move(box), piece, &rest);
    filled = std::move(rest);
  }
  return filled;
}

/*! \brief Widens the range of each input that a piece reads. */
void NoteRead(const StridedPiece& piece, std::vector<ByteRange>* read) {
  for (size_t s = 0; s < piece.inputs.size(); ++s) {
    ByteRange& range = read->at(piece.inputs[s]);
    int64_t last = piece.offsets[s + 1];
    for (const Dimension& dimension : piece.dimensions) {
      last += (dimension.extent - 1) * dimension.strides[s + 1];
    }
    const bool is_first = range.begin == range.end;
    range.begin = is_first ? piece.offsets[s + 1] : std::min(range.begin, piece.offsets[s + 1]);
    range.end = std::max(range.end, last + piece.item_bytes);
  }
}

}  // namespace

Divider MakeDivider(uint32_t divisor) {
  uint32_t shift = 0;
  while ((uint64_t{1} << shift) < divisor) ++shift;
  const uint64_t power = uint64_t{1} << shift;
  const uint64_t multiplier = ((power - divisor) << 32) / divisor + 1;
  return Divider{divisor, static_cast<uint32_t>(multiplier), shift};
}

FetchTable PrepareFetch(const FetchGeometry& geometry, int alignment, int64_t max_items) {
  if (geometry.inputs.size() > static_cast<size_t>(kMaxInputs)) {
    throw std::invalid_argument("a fetch reads " + std::to_string(geometry.inputs.size()) +
                                " arrays; on a GPU it may read " + std::to_string(kMaxInputs));
  }
  int64_t bytes = geometry.element_bytes;
  for (int64_t extent : geometry.shape) bytes *= extent;
  const PartLimits limits = {max_items, std::max(kBandBytes, bytes / kMostBands)};
  FetchTable table;
  table.read.resize(geometry.inputs.size());
  std::vector<StridedPiece> parts;
  for (const Piece& piece : geometry.pieces) {
    StridedPiece strided = MakeStrided(geometry, piece, alignment);
    if (strided.num_items() > 0) NoteRead(strided, &table.read);
    Cut(std::move(strided), limits, &parts);
  }
  for (const Piece& piece : FindFilled(geometry)) {
    Cut(MakeStrided(geometry, piece, alignment), limits, &parts);
  }
  // Neighbours in the output are written one after the other, so that the lines of memory that
  // several pieces share are whole when they leave the cache.
  std::sort(parts.begin(), parts.end(), [](const StridedPiece& a, const StridedPiece& b) {
    return a.offsets[0] < b.offsets[0];
  });
  for (const StridedPiece& part : parts) AppendRecord(part, &table);
  return table;
}

}  // namespace cuda
}  // namespace tofu
