/*!
 * \file shared_elements.cc
 */
#include "core/geometry/shared_elements.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace tofu {

void SharedElements::Bounds::SortAndSum() {
  std::sort(positions.begin(), positions.end());
  for (int64_t position : positions) sums.push_back(sums.back() + position);
}

int64_t SharedElements::Bounds::SumBelow(int64_t position) const {
  const int64_t lower =
      std::lower_bound(positions.begin(), positions.end(), position) - positions.begin();
  return lower * position - sums[lower];
}

SharedElements::SharedElements(const Boxes& boxes, const std::vector<int>& workers)
    : boxes_(boxes) {
  for (int worker : workers) {
    if (!IsEmptyBox(boxes[worker], boxes.rank())) workers_.push_back(worker);
  }
  FindProducts();
}

void SharedElements::FindProducts() {
  std::vector<size_t> products(workers_.size(), 0);  // by worker: the number of its product
  size_t count = 1;
  for (int d = 0; d < boxes_.rank(); ++d) {
    const std::vector<Interval> parts = ListParts(boxes_, workers_, d);
    count *= parts.size();
    if (count > workers_.size()) return;
    for (size_t i = 0; i < workers_.size(); ++i) {
      const Interval& part = boxes_[workers_[i]][d];
      const auto found = std::lower_bound(parts.begin(), parts.end(), part);
      products[i] = products[i] * parts.size() + (found - parts.begin());
    }
    Dimension dimension;
    for (const Interval& part : parts) {
      dimension.begins.positions.push_back(part.begin);
      dimension.ends.positions.push_back(part.end);
    }
    dimension.begins.SortAndSum();
    dimension.ends.SortAndSum();
    dimensions_.push_back(std::move(dimension));
  }
  if (workers_.empty()) return;
  std::vector<int64_t> times(count, 0);
  for (size_t product : products) ++times[product];
  const bool is_even =
      std::adjacent_find(times.begin(), times.end(), std::not_equal_to<>()) == times.end();
  if (is_even) times_ = times.front();
}

int64_t SharedElements::Count(const Interval* box) const {
  const int rank = boxes_.rank();
  if (IsEmptyBox(box, rank)) return 0;
  if (times_ == 0) {
    int64_t elements = 0;
    for (int worker : workers_) elements += IntersectionVolume(box, boxes_[worker], rank);
    return elements;
  }
  // A part has max(x - begin, 0) - max(x - end, 0) elements below a position x.
  const auto count_below = [&](int d, int64_t position) {
    return dimensions_[d].begins.SumBelow(position) - dimensions_[d].ends.SumBelow(position);
  };
  int64_t elements = times_;
  for (int d = 0; d < rank; ++d) {
    elements *= count_below(d, box[d].end) - count_below(d, box[d].begin);
  }
  return elements;
}

}  // namespace tofu
