/*!
 * \file piece_runs.cc
 */
#include "nnvm/fetch/piece_runs.h"

#include <algorithm>
#include <utility>

namespace tofu::nnvm_layer {

PieceRuns::PieceRuns(StridedPiece piece) : piece_(std::move(piece)) {
  if (piece_.dimensions.empty()) return;
  const StridedDimension& row = piece_.dimensions.front();
  if (std::all_of(row.strides.begin(), row.strides.end(), [](int64_t s) { return s == 1; })) {
    run_length_ = row.extent;
    first_outer_ = 1;
  }
}

PieceRuns::Iterator::Iterator(const PieceRuns& runs, int64_t first_run)
    : dimensions_(runs.piece_.dimensions),
      first_outer_(runs.first_outer_),
      offsets_(runs.piece_.offsets) {
  if (first_outer_ < dimensions_.size()) {
    strides_ = dimensions_[first_outer_].strides;
    innermost_ = dimensions_[first_outer_].extent;
  }
  for (size_t d = first_outer_; d < dimensions_.size(); ++d) {
    const StridedDimension& dimension = dimensions_[d];
    position_.push_back(first_run % dimension.extent);
    first_run /= dimension.extent;
    for (size_t a = 0; a < offsets_.size(); ++a) {
      offsets_[a] += position_.back() * dimension.strides[a];
    }
  }
}

void PieceRuns::Iterator::Next() {
  if (!position_.empty() && position_[0] + 1 < innermost_) {  // the usual case if runs are short
    ++position_[0];
    for (size_t a = 0; a < offsets_.size(); ++a) offsets_[a] += strides_[a];
    return;
  }
  for (size_t d = 0; d < position_.size(); ++d) {
    const StridedDimension& dimension = dimensions_[first_outer_ + d];
    const bool carry = ++position_[d] == dimension.extent;
    const int64_t steps = carry ? 1 - dimension.extent : 1;
    for (size_t a = 0; a < offsets_.size(); ++a) offsets_[a] += steps * dimension.strides[a];
    if (!carry) return;
    position_[d] = 0;
  }
}

}  // namespace tofu::nnvm_layer
