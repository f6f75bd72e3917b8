/*!
 * \file rearrange.h
 * \brief Tables in another order of their variables.
 */
#ifndef TOFU_CORE_BOUNDS_REARRANGE_H_
#define TOFU_CORE_BOUNDS_REARRANGE_H_

#include <cstddef>
#include <vector>

#include "core/bounds/min_sum.h"

namespace tofu {

/*!
 * \brief Adds `table` to a table over `scope`, which holds all variables of `table`, others too and
 * in any order.
 *
 * `sum` has the entries of `scope`, row-major. Blocks are turned while they are in the cache, on
 * all cores.
 */
void AddRearranged(const CostTable& table, const std::vector<int>& scope,
                   const std::vector<size_t>& domain_sizes, Cost* sum);

/*! \brief The same in place of what `copy` held. */
void CopyRearranged(const CostTable& table, const std::vector<int>& scope,
                    const std::vector<size_t>& domain_sizes, Cost* copy);

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_REARRANGE_H_
