/*!
 * \file coverage.h
 * \brief How often boxes cover a tensor.
 */
#ifndef TOFU_CORE_GEOMETRY_COVERAGE_H_
#define TOFU_CORE_GEOMETRY_COVERAGE_H_

#include <cstdint>
#include <vector>

#include "core/geometry/geometry.h"

namespace tofu {

/*!
 * \brief How often the boxes of the workers of one number cover every cell of [0, shape), where
 * that is the same for every cell and number; else 0.
 *
 * `numbers` are those of the workers, from 0 on. Boxes lie within the shape. Takes time linear in
 * the number of workers, but for sorting, where boxes tile; 0 where their ends cut the shape into
 * far more pieces than there are boxes.
 */
int64_t CountCoverage(const Boxes& boxes, const std::vector<int>& numbers,
                      const std::vector<int64_t>& shape);

}  // namespace tofu

#endif  // TOFU_CORE_GEOMETRY_COVERAGE_H_
