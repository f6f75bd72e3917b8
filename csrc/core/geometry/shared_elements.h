/*!
 * \file shared_elements.h
 * \brief Count of the elements that a box shares with many boxes.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/geometry/geometry.h"

namespace tofu {

/*!
 * \brief Counts the elements that a box has in common with the boxes of some workers.
 *
 * Boxes of workers usually form a grid. Then the count is a product of counts by dimension, and
 * does not visit the boxes.
 */
class SharedElements {
 public:
  /*! \param boxes must outlive this object */
  SharedElements(const Boxes& boxes, const std::vector<int>& workers);

  /*! \brief Count the elements of `box` in each of the boxes, and add up the counts. */
  int64_t Count(const Interval* box) const;

 private:
  /*! \brief The begins or ends of a dimension's distinct parts, ascending, and their sums. */
  struct Bounds {
    std::vector<int64_t> positions;
    std::vector<int64_t> sums = {0};  // of the first positions

    void SortAndSum();
    /*! \brief Return the sum of the distances from all lower positions to a position. */
    int64_t SumBelow(int64_t position) const;
  };

  struct Dimension {
    Bounds begins, ends;
  };

  void FindProducts();

  const Boxes& boxes_;
  std::vector<int> workers_;           // with boxes that are not empty
  std::vector<Dimension> dimensions_;  // if the boxes are products
  int64_t times_ = 0;                  // how often each product occurs; 0 if they are none
};

}  // namespace tofu
