/*!
 * \file rearrange.h
 * \brief Copies and sums of tables whose variables are in different orders.
 */
#pragma once

#include <cstddef>
#include <vector>

#include "core/bounds/min_sum.h"

namespace tofu {

/*! \brief Add `table` to `sum`, a row-major table over `scope`. The scope holds all variables of
 * `table`, in any order. Uses all cores. */
void AddRearranged(const CostTable& table, const std::vector<int>& scope,
                   const std::vector<size_t>& domain_sizes, Cost* sum);

/*! \brief Write `table` to `copy`, a row-major table over `scope`, which holds all variables of
 * `table`. */
void CopyRearranged(const CostTable& table, const std::vector<int>& scope,
                    const std::vector<size_t>& domain_sizes, Cost* copy);

}  // namespace tofu
