/*!
 * \file box_index.h
 * \brief Search for the workers whose boxes meet a box.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry/geometry.h"

namespace tofu {

/*!
 * \brief The boxes of all workers, by their interval in each dimension.
 *
 * Boxes of workers usually form a grid. Then a search takes time only for the workers that it
 * finds.
 */
class BoxIndex {
 public:
  BoxIndex() = default;
  explicit BoxIndex(const Boxes& boxes);

  /*! \brief List the workers whose boxes have an element in common with `box`, ascending. */
  std::vector<int> Find(const Interval* box) const;

 private:
  struct Dimension {
    std::vector<Interval> parts;  // distinct, ordered by begin
    std::vector<int64_t> reach;   // by part: the largest end of this and all earlier parts
  };

  size_t FindPart(size_t begin, size_t end, size_t d, int part) const;
  std::vector<int> ListMet(const Dimension& dimension, const Interval& interval) const;

  std::vector<Dimension> dimensions_;
  std::vector<int> workers_;             // with boxes that are not empty, ordered by `parts_`
  std::vector<std::vector<int>> parts_;  // by position in `workers_`: the part in each dimension
};

}  // namespace tofu
