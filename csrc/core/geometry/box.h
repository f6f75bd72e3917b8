/*!
 * \file box.h
 * \brief Intervals, boxes, and arithmetic on them.
 *
 * Intervals are half open, [begin, end). A box has one interval per dimension. Functions take a box
 * as pointer and rank, because the boxes of all workers are one flat array. Both extension modules
 * compile this file, so it uses only the C++ library.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace tofu {

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t extent() const { return std::max<int64_t>(end - begin, 0); }
};

using Box = std::vector<Interval>;

inline bool operator==(const Interval& a, const Interval& b) {
  return a.begin == b.begin && a.end == b.end;
}
inline bool operator!=(const Interval& a, const Interval& b) { return !(a == b); }
inline bool operator<(const Interval& a, const Interval& b) {
  return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
}

inline Interval Intersect(const Interval& a, const Interval& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

inline Interval Shift(const Interval& interval, int64_t distance) {
  return {interval.begin + distance, interval.end + distance};
}

/*! \brief Return true if `inner` begins and ends within `outer`. */
inline bool Contains(const Interval& outer, const Interval& inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

/*! \brief Return the box of all elements of a tensor, [0, shape). */
inline Box FullBox(const std::vector<int64_t>& shape) {
  Box box;
  for (int64_t extent : shape) box.push_back({0, extent});
  return box;
}

inline std::vector<int64_t> BeginsOf(const Interval* box, int rank) {
  std::vector<int64_t> begins(rank);
  for (int d = 0; d < rank; ++d) begins[d] = box[d].begin;
  return begins;
}

/*! \brief Return the shape of an array that holds the box. */
inline std::vector<int64_t> ExtentsOf(const Interval* box, int rank) {
  std::vector<int64_t> extents(rank);
  for (int d = 0; d < rank; ++d) extents[d] = box[d].extent();
  return extents;
}

inline int64_t Volume(const Interval* box, int rank) {
  int64_t volume = 1;
  for (int d = 0; d < rank; ++d) volume *= box[d].extent();
  return volume;
}
inline int64_t Volume(const Box& box) { return Volume(box.data(), static_cast<int>(box.size())); }

inline bool IsEqualBox(const Interval* a, const Interval* b, int rank) {
  return std::equal(a, a + rank, b);
}

inline bool IsEmptyBox(const Interval* box, int rank) {
  return std::any_of(box, box + rank,
                     [](const Interval& interval) { return interval.end <= interval.begin; });
}

inline int64_t IntersectionVolume(const Interval* a, const Interval* b, int rank) {
  int64_t volume = 1;
  for (int d = 0; d < rank; ++d) {
    const Interval overlap = Intersect(a[d], b[d]);
    if (overlap.end <= overlap.begin) return 0;
    volume *= overlap.end - overlap.begin;
  }
  return volume;
}

/*! \brief Return true if boxes of equal rank have an element in common. */
inline bool Meet(const Box& a, const Box& b) {
  return IntersectionVolume(a.data(), b.data(), static_cast<int>(a.size())) > 0;
}

/*! \brief Compute the intersection of two boxes. Return true if it is not empty. */
inline bool Intersect(const Interval* a, const Interval* b, int rank, Interval* overlap) {
  for (int d = 0; d < rank; ++d) overlap[d] = Intersect(a[d], b[d]);
  return !IsEmptyBox(overlap, rank);
}

/*! \brief Append the elements of `box` that are not in `inner` to `rest`, as disjoint boxes: in
 * each dimension the elements before `inner`, then those after it. */
inline void Subtract(Box box, const Box& inner, std::vector<Box>* rest) {
  if (!Meet(box, inner)) {
    rest->push_back(std::move(box));
    return;
  }
  for (size_t d = 0; d < box.size(); ++d) {
    if (box[d].begin < inner[d].begin) {
      rest->push_back(box);
      rest->back()[d].end = inner[d].begin;
      box[d].begin = inner[d].begin;
    }
    if (inner[d].end < box[d].end) {
      rest->push_back(box);
      rest->back()[d].begin = inner[d].end;
      box[d].end = inner[d].end;
    }
  }
}

}  // namespace tofu
