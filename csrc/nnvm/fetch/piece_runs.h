/*!
 * \file piece_runs.h
 * \brief A piece as contiguous runs of equal length.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/program/strided_piece.h"

namespace tofu::nnvm_layer {

/*! \brief A piece of a fetch as runs. If its innermost dimension is contiguous in the output and in
 * all sources, this dimension is a run; otherwise every element is a run. */
class PieceRuns {
 public:
  explicit PieceRuns(StridedPiece piece);

  int64_t run_length() const { return run_length_; }
  int64_t num_cells() const { return piece_.num_cells(); }

  /*! \brief Iterator over the runs, with the offset of each in elements. */
  class Iterator {
   public:
    Iterator(const PieceRuns& runs, int64_t first_run);
    void Next();
    int64_t output_offset() const { return offsets_[0]; }
    int64_t source_offset(size_t source) const { return offsets_[source + 1]; }

   private:
    const std::vector<StridedDimension>& dimensions_;
    const size_t first_outer_;
    std::vector<int64_t> position_;  // in the outer dimensions
    std::vector<int64_t> offsets_;   // of the output, then of each source
    std::vector<int64_t> strides_;   // strides of the innermost outer dimension
    int64_t innermost_ = 0;          // its extent
  };

 private:
  StridedPiece piece_;
  size_t first_outer_ = 0;  // the innermost dimension outside the run
  int64_t run_length_ = 1;
};

}  // namespace tofu::nnvm_layer
