/*!
 * \file prepare_fetch.cc
 */
#include "cuda/prepare_fetch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/text.h"
#include "core/program/strided_piece.h"

namespace tofu::cuda {
namespace {

using Extents = std::vector<int64_t>;

constexpr int64_t kWideRow = 4096;       // bytes; below, rows of several pieces share cache lines
constexpr int64_t kBandBytes = 2 << 20;  // of the output: half the cache of a small GPU
constexpr int64_t kMostBands = 1024;     // of an output

/*! \brief A piece, or a part of one, in items and bytes. */
struct PiecePart : StridedPiece {
  std::vector<int64_t> inputs;  // of the sources
  int64_t item_bytes;

  int64_t num_items() const { return num_cells(); }

  /*! \brief Bytes of the output from the first to the last item. */
  int64_t span() const {
    return dimensions.empty() ? item_bytes
                              : dimensions.back().extent * dimensions.back().strides[0];
  }

  /*! \brief Bytes of the output that are contiguous in the innermost dimension. */
  int64_t row_bytes() const {
    if (dimensions.empty() || dimensions.front().strides[0] != item_bytes) return item_bytes;
    return dimensions.front().extent * item_bytes;
  }
};

/*! \brief The largest power of two that divides `bound`, a power of two, and all numbers. */
int64_t CommonPower(int64_t bound, const std::vector<int64_t>& numbers) {
  for (int64_t number : numbers) {
    while (number % bound != 0) bound /= 2;
  }
  return bound;
}

/*! \brief Count the innermost dimension in items instead of elements. */
void ChooseItem(int64_t element_bytes, int64_t alignment, PiecePart* piece) {
  piece->item_bytes = element_bytes;
  if (piece->dimensions.empty()) return;
  StridedDimension& row = piece->dimensions.front();
  for (int64_t stride : row.strides) {
    if (stride != element_bytes) return;  // not contiguous: element by element
  }
  int64_t bytes = CommonPower(std::min<int64_t>(kLargestItem, alignment), piece->offsets);
  bytes = CommonPower(bytes, {row.extent * element_bytes});
  for (size_t d = 1; d < piece->dimensions.size(); ++d) {
    bytes = CommonPower(bytes, piece->dimensions[d].strides);
  }
  piece->item_bytes = std::max(bytes, element_bytes);
  row.extent = row.extent * element_bytes / piece->item_bytes;
  for (int64_t& stride : row.strides) stride = piece->item_bytes;
  MergeDimensions(&piece->dimensions);  // the row may be a single item
}

PiecePart MakePart(const FetchGeometry& geometry, const Piece& piece, int alignment) {
  PiecePart part;
  const auto shape_of = [&](int64_t input) -> const Extents& { return geometry.inputs[input]; };
  static_cast<StridedPiece&>(part) =
      MakeStridedPiece(piece, geometry.shape, shape_of, geometry.element_bytes);
  for (const Source& source : piece.sources) part.inputs.push_back(source.input);
  ChooseItem(geometry.element_bytes, alignment, &part);
  return part;
}

void AppendRecord(const PiecePart& piece, FetchTable* table) {
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
    Refuse("a fetch has more than 2^31 tiles");
  }
  table->tiles += static_cast<uint32_t>(tiles);
  table->pieces.push_back(record);
}

/*! \brief Limits of a part of a piece. */
struct PartLimits {
  int64_t items;
  int64_t band_bytes;  // of the output, if rows are narrow

  bool Allow(const PiecePart& piece) const {
    return piece.num_items() <= items && piece.dimensions.size() <= kMaxDims &&
           (piece.span() <= band_bytes || piece.row_bytes() >= kWideRow);
  }
};

/*! \brief Halve the outermost dimension until all parts are within the limits. */
void Cut(PiecePart piece, const PartLimits& limits, std::vector<PiecePart>* parts) {
  if (piece.num_items() == 0) return;
  if (limits.Allow(piece)) {
    parts->push_back(std::move(piece));
    return;
  }
  PiecePart second = piece;
  const int64_t half = piece.dimensions.back().extent / 2;
  piece.dimensions.back().extent = half;
  second.dimensions.back().extent -= half;
  for (size_t t = 0; t < second.offsets.size(); ++t) {
    second.offsets[t] += half * second.dimensions.back().strides[t];
  }
  for (PiecePart* part : {&piece, &second}) {
    if (part->dimensions.back().extent == 1) part->dimensions.pop_back();
    Cut(std::move(*part), limits, parts);
  }
}

/*! \brief Elements of the region outside all pieces, as disjoint boxes without sources. */
std::vector<Piece> FindFilled(const FetchGeometry& geometry) {
  std::vector<Box> filled = {FullBox(geometry.shape)};
  for (const Piece& piece : geometry.pieces) {
    std::vector<Box> rest;
    for (Box& box : filled) Subtract(std::move(box), piece.box, &rest);
    filled = std::move(rest);
  }
  std::vector<Piece> pieces;
  for (Box& box : filled) pieces.push_back({std::move(box), {}});
  return pieces;
}

/*! \brief Extend the range of each input that a piece reads. */
void NoteRead(const PiecePart& piece, std::vector<ByteRange>* read) {
  for (size_t s = 0; s < piece.inputs.size(); ++s) {
    ByteRange& range = read->at(piece.inputs[s]);
    int64_t last = piece.offsets[s + 1];
    for (const StridedDimension& dimension : piece.dimensions) {
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
    Refuse("a fetch reads ", geometry.inputs.size(), " arrays; on a GPU it may read ", kMaxInputs);
  }
  int64_t bytes = geometry.element_bytes;
  for (int64_t extent : geometry.shape) bytes *= extent;
  const PartLimits limits = {max_items, std::max(kBandBytes, bytes / kMostBands)};
  FetchTable table;
  table.read.resize(geometry.inputs.size());
  std::vector<PiecePart> parts;
  for (const Piece& piece : geometry.pieces) {
    PiecePart part = MakePart(geometry, piece, alignment);
    if (part.num_items() > 0) NoteRead(part, &table.read);
    Cut(std::move(part), limits, &parts);
  }
  for (const Piece& piece : FindFilled(geometry)) {
    Cut(MakePart(geometry, piece, alignment), limits, &parts);
  }
  // Adjacent parts of the output are written one after the other. A cache line that several pieces
  // share is then complete when it is evicted.
  std::sort(parts.begin(), parts.end(),
            [](const PiecePart& a, const PiecePart& b) { return a.offsets[0] < b.offsets[0]; });
  for (const PiecePart& part : parts) AppendRecord(part, &table);
  return table;
}

}  // namespace tofu::cuda
