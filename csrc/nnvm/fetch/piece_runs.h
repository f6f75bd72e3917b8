/*!
 * \file piece_runs.h
 * \brief A piece as contiguous runs of equal length, and a walk over them.
 */
#ifndef TOFU_NNVM_FETCH_PIECE_RUNS_H_
#define TOFU_NNVM_FETCH_PIECE_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/program/strided_piece.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief A strided piece, in elements, whose innermost dimension is one run where its cells are
 * neighbours in the output and in every source; else every cell is a run. */
class PieceRuns {
 public:
  explicit PieceRuns(StridedPiece piece);

  int64_t run_length() const { return run_length_; }
  int64_t num_cells() const { return piece_.num_cells(); }

  /*! \brief Offsets, in elements, of one run after the other. */
  class Walk {
   public:
    Walk(const PieceRuns& runs, int64_t first_run);
    void Next();
    int64_t output_offset() const { return offsets_[0]; }
    int64_t source_offset(size_t source) const { return offsets_[source + 1]; }

   private:
    const std::vector<StridedDimension>& dimensions_;
    const size_t first_outer_;
    std::vector<int64_t> position_;  // in the dimensions outside of the run
    std::vector<int64_t> offsets_;   // of the output, then of each source
    std::vector<int64_t> strides_;   // of the innermost of those dimensions, in the same order
    int64_t innermost_ = 0;          // its extent
  };

 private:
  StridedPiece piece_;
  size_t first_outer_ = 0;  // the dimension after those of the run
  int64_t run_length_ = 1;
};

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_FETCH_PIECE_RUNS_H_
