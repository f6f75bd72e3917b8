/*!
 * \file piece_runs.h
 * \brief A piece as contiguous runs of equal length, and a walk over them.
 */
#ifndef TOFU_NNVM_FETCH_PIECE_RUNS_H_
#define TOFU_NNVM_FETCH_PIECE_RUNS_H_

#include <cstdint>
#include <vector>

#include "nnvm/fetch/multi_fetch.h"

namespace tofu {
namespace nnvm_layer {

/*!
 * \brief Where the cells of a piece lie in its output and in each of its sources, all of them
 * row-major.
 *
 * Trailing dimensions that the piece takes whole, in the output and in every source, are one run.
 */
class PieceRuns {
 public:
  /*! \param source_shapes shapes of the inputs that the piece's sources read, one for each source
   */
  PieceRuns(const FetchPiece& piece, const std::vector<mxnet::TShape>& source_shapes,
            const mxnet::TShape& output_shape);

  int64_t run_length() const { return run_length_; }
  int64_t num_cells() const { return num_cells_; }

  /*! \brief Offsets, in elements, of one run after the other. */
  class Walk {
   public:
    Walk(const PieceRuns& runs, int64_t first_run);
    void Next();
    int64_t output_offset() const { return offsets_[0]; }
    int64_t source_offset(size_t source) const { return offsets_[source + 1]; }

   private:
    const PieceRuns& runs_;
    std::vector<int64_t> position_;  // in the outer dimensions
    std::vector<int64_t> offsets_;   // of the output, then of each source
    std::vector<int64_t> strides_;   // of the innermost of those dimensions, in the same order
  };

 private:
  /*! \brief Row-major strides of the output, or of a source, and the offset of the piece's first
   * cell. */
  struct Place {
    std::vector<int64_t> strides;
    int64_t offset = 0;
  };
  static Place Locate(const mxnet::TShape& shape, const std::vector<int64_t>& begin);

  std::vector<int64_t> outer_extent_;  // of the dimensions outside of the run
  std::vector<Place> places_;          // of the output, then of each source
  int64_t run_length_ = 1;
  int64_t num_cells_ = 1;
};

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_FETCH_PIECE_RUNS_H_
