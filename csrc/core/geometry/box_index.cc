/*!
 * \file box_index.cc
 */
#include "core/geometry/box_index.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tofu {

BoxIndex::BoxIndex(const Boxes& boxes) : dimensions_(boxes.rank()) {
  std::vector<int> present;
  for (int worker = 0; worker < boxes.count(); ++worker) {
    if (!IsEmptyBox(boxes[worker], boxes.rank())) present.push_back(worker);
  }
  std::vector<std::pair<std::vector<int>, int>> ordered;  // (parts, worker)
  for (int worker : present) ordered.emplace_back(std::vector<int>(boxes.rank()), worker);
  for (int d = 0; d < boxes.rank(); ++d) {
    Dimension& dimension = dimensions_[d];
    dimension.parts = ListParts(boxes, present, d);
    const std::vector<Interval>& parts = dimension.parts;
    int64_t reach = std::numeric_limits<int64_t>::min();
    for (const Interval& part : parts) {
      reach = std::max(reach, part.end);
      dimension.reach.push_back(reach);
    }
    for (auto& [of_worker, worker] : ordered) {
      const auto found = std::lower_bound(parts.begin(), parts.end(), boxes[worker][d]);
      of_worker[d] = static_cast<int>(found - parts.begin());
    }
  }
  std::sort(ordered.begin(), ordered.end());
  for (auto& [of_worker, worker] : ordered) {
    workers_.push_back(worker);
    parts_.push_back(std::move(of_worker));
  }
}

/*! \brief List the parts that meet an interval. */
std::vector<int> BoxIndex::ListMet(const Dimension& dimension, const Interval& interval) const {
  std::vector<int> met;
  const auto first =
      std::upper_bound(dimension.reach.begin(), dimension.reach.end(), interval.begin);
  for (size_t part = first - dimension.reach.begin(); part < dimension.parts.size(); ++part) {
    const Interval& other = dimension.parts[part];
    if (other.begin >= interval.end) break;
    if (Intersect(other, interval).extent() > 0) met.push_back(static_cast<int>(part));
  }
  return met;
}

/*! \brief Return the first position in a range whose part in dimension `d` is `part` or later. */
size_t BoxIndex::FindPart(size_t begin, size_t end, size_t d, int part) const {
  const auto is_before = [d](const std::vector<int>& parts, int wanted) {
    return parts[d] < wanted;
  };
  return std::lower_bound(parts_.begin() + begin, parts_.begin() + end, part, is_before) -
         parts_.begin();
}

std::vector<int> BoxIndex::Find(const Interval* box) const {
  // Workers with the same parts in the first dimensions form a range. Each dimension divides the
  // ranges, so at most as many ranges as workers are visited.
  using Range = std::pair<size_t, size_t>;
  std::vector<Range> ranges = {{0, workers_.size()}};
  for (size_t d = 0; d < dimensions_.size() && !ranges.empty(); ++d) {
    const std::vector<int> met = ListMet(dimensions_[d], box[d]);
    if (met.size() == dimensions_[d].parts.size() && d + 1 == dimensions_.size()) break;
    std::vector<Range> narrower;
    for (const Range& range : ranges) {
      size_t at = range.first;
      for (int part : met) {
        at = FindPart(at, range.second, d, part);
        const size_t end = FindPart(at, range.second, d, part + 1);
        if (at < end) narrower.emplace_back(at, end);
        at = end;
        if (at == range.second) break;
      }
    }
    ranges = std::move(narrower);
  }
  std::vector<int> found;
  for (const Range& range : ranges) {
    found.insert(found.end(), workers_.begin() + range.first, workers_.begin() + range.second);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tofu
