/*!
 * \file overlaps.h
 * \brief Volumes of the intersections of one list of boxes with many lists.
 *
 * Layouts of a tensor are lists of shards, one for each worker. There are thousands of layouts, but
 * few different lists of intervals in a dimension. The lengths of intersections are computed once
 * for each such list. A volume is a product of lengths.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/geometry/geometry.h"

namespace tofu {

/*! \brief Lists of boxes, of equal counts and ranks. Intervals that are equal in a dimension are
 * stored once. */
class BoxLists {
 public:
  /*! \brief Add a list, and return its number. */
  int Add(const Boxes& boxes);

 private:
  friend class Overlaps;

  using Column = std::vector<Interval>;  // the intervals of a dimension, by worker

  std::vector<std::map<Column, int>> known_;         // by dimension: the columns and their numbers
  std::vector<std::vector<const Column*>> columns_;  // by dimension and number
  std::vector<std::vector<int>> columns_of_;         // by list and dimension
};

/*! \brief Two workers: the box of worker `box` is intersected with the region of worker `region`.
 */
struct BoxPair {
  int box;
  int region;
};

/*! \brief The intersections of pairs of workers. */
class Overlaps {
 public:
  /*! \brief Return true if the ranks, and the lengths for `num_pairs` pairs, are small enough. */
  static bool IsSmall(const BoxLists& lists, size_t num_pairs);

  Overlaps(const Boxes& regions, const std::vector<BoxPair>& pairs, const BoxLists& lists);

  /*! \brief Return the volume of all intersections with the boxes of a list. */
  int64_t Count(int list) const;

  /*! \brief The volume of the regions of all pairs. */
  int64_t region_volume() const { return region_volume_; }

 private:
  static constexpr size_t kMaxRank = 16;

  const BoxLists& lists_;
  int64_t region_volume_ = 0;
  std::vector<int> varied_;     // the dimensions in which lists differ
  std::vector<int64_t> fixed_;  // by pair, the product of the lengths in other dimensions
  std::vector<std::vector<int64_t>> lengths_;  // by varied dimension; [column * pairs + pair]
};

}  // namespace tofu
