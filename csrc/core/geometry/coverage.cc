/*!
 * \file coverage.cc
 * \brief Coverage, counted on the pieces that the ends of all boxes cut the tensor into.
 */
#include <algorithm>
#include <cstddef>

#include "core/geometry/geometry.h"

namespace tofu {

namespace {

class Coverage {
 public:
  Coverage(const Boxes& boxes, const std::vector<int>& numbers, const std::vector<int64_t>& shape)
      : boxes_(boxes), numbers_(numbers), cuts_(shape.size()) {
    for (size_t d = 0; d < shape.size(); ++d) {
      std::vector<int64_t>& cuts = cuts_[d];
      cuts = {0, shape[d]};
      for (int worker = 0; worker < boxes.count(); ++worker) {
        if (worker > 0 && boxes[worker][d] == boxes[worker - 1][d]) continue;
        cuts.push_back(boxes[worker][d].begin);
        cuts.push_back(boxes[worker][d].end);
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    }
  }

  int64_t Count() {
    constexpr size_t kMaxPiecesPerBox = 4;
    size_t pieces = *std::max_element(numbers_.begin(), numbers_.end()) + size_t{1};
    for (const std::vector<int64_t>& cuts : cuts_) {
      pieces *= cuts.size() - 1;
      if (pieces > kMaxPiecesPerBox * numbers_.size()) return 0;
    }
    counts_.assign(pieces, 0);
    for (int worker = 0; worker < boxes_.count(); ++worker)
      Cover(boxes_[worker], 0, static_cast<size_t>(numbers_[worker]));
    const bool is_even =
        std::adjacent_find(counts_.begin(), counts_.end(), std::not_equal_to<>()) == counts_.end();
    return is_even && !counts_.empty() ? counts_.front() : 0;
  }

 private:
  /*! \brief Count a box in all its pieces. `piece` is the number of a piece in the dimensions
   * before dimension d. */
  void Cover(const Interval* box, size_t d, size_t piece) {
    if (d == cuts_.size()) {
      ++counts_[piece];
      return;
    }
    const std::vector<int64_t>& cuts = cuts_[d];
    size_t i = std::lower_bound(cuts.begin(), cuts.end(), box[d].begin) - cuts.begin();
    for (; cuts[i] < box[d].end; ++i) Cover(box, d + 1, piece * (cuts.size() - 1) + i);
  }

  const Boxes& boxes_;
  const std::vector<int>& numbers_;
  std::vector<std::vector<int64_t>> cuts_;  // by dimension, ascending
  std::vector<int64_t> counts_;             // by group and piece
};

}  // namespace

int64_t CountCoverage(const Boxes& boxes, const std::vector<int>& numbers,
                      const std::vector<int64_t>& shape) {
  return Coverage(boxes, numbers, shape).Count();
}

}  // namespace tofu
