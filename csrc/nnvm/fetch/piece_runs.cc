/*!
 * \file piece_runs.cc
 */
#include "nnvm/fetch/piece_runs.h"

#include <algorithm>

namespace tofu {
namespace nnvm_layer {

PieceRuns::Place PieceRuns::Locate(const mxnet::TShape& shape, const std::vector<int64_t>& begin) {
  Place place;
  place.strides.assign(shape.ndim(), 1);
  for (int d = shape.ndim() - 2; d >= 0; --d) {
    place.strides[d] = place.strides[d + 1] * shape[d + 1];
  }
  for (int d = 0; d < shape.ndim(); ++d) place.offset += begin[d] * place.strides[d];
  return place;
}

PieceRuns::PieceRuns(const FetchPiece& piece, const std::vector<mxnet::TShape>& source_shapes,
                     const mxnet::TShape& output_shape) {
  places_.push_back(Locate(output_shape, piece.begin));
  for (size_t s = 0; s < source_shapes.size(); ++s) {
    places_.push_back(Locate(source_shapes[s], piece.sources[s].begin));
  }
  const auto takes_whole = [&](int d) {
    return piece.extent[d] == output_shape[d] &&
           std::all_of(source_shapes.begin(), source_shapes.end(),
                       [&](const mxnet::TShape& shape) { return shape[d] == piece.extent[d]; });
  };
  int outer = static_cast<int>(piece.extent.size());
  while (outer > 0) {
    run_length_ *= piece.extent[--outer];
    if (!takes_whole(outer)) break;
  }
  outer_extent_.assign(piece.extent.begin(), piece.extent.begin() + outer);
  num_cells_ = run_length_;
  for (int64_t extent : outer_extent_) num_cells_ *= extent;
}

PieceRuns::Walk::Walk(const PieceRuns& runs, int64_t first_run)
    : runs_(runs), position_(runs.outer_extent_.size()), offsets_(runs.places_.size()) {
  if (!position_.empty()) {
    for (const Place& place : runs.places_) strides_.push_back(place.strides[position_.size() - 1]);
  }
  for (size_t d = position_.size(); d-- > 0;) {
    position_[d] = first_run % runs.outer_extent_[d];
    first_run /= runs.outer_extent_[d];
  }
  for (size_t p = 0; p < offsets_.size(); ++p) {
    offsets_[p] = runs.places_[p].offset;
    for (size_t d = 0; d < position_.size(); ++d) {
      offsets_[p] += position_[d] * runs.places_[p].strides[d];
    }
  }
}

void PieceRuns::Walk::Next() {
  if (!position_.empty() && position_.back() + 1 < runs_.outer_extent_.back()) {
    ++position_.back();
    for (size_t p = 0; p < offsets_.size(); ++p) offsets_[p] += strides_[p];
    return;
  }
  for (size_t d = position_.size(); d-- > 0;) {
    const bool carry = ++position_[d] == runs_.outer_extent_[d];
    const int64_t steps = carry ? 1 - runs_.outer_extent_[d] : 1;
    for (size_t p = 0; p < offsets_.size(); ++p) {
      offsets_[p] += steps * runs_.places_[p].strides[d];
    }
    if (!carry) return;
    position_[d] = 0;
  }
}

}  // namespace nnvm_layer
}  // namespace tofu
