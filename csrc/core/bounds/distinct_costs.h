/*!
 * \file distinct_costs.h
 * \brief Tables of costs, each held once.
 */
#ifndef TOFU_CORE_BOUNDS_DISTINCT_COSTS_H_
#define TOFU_CORE_BOUNDS_DISTINCT_COSTS_H_

#include <cstddef>
#include <unordered_map>

#include "core/bounds/min_sum.h"

namespace tofu {

/*! \brief Numbers lists of entries, so that equal ones have equal numbers and are one object. */
class DistinctCosts {
 public:
  /*! \brief The number of `costs`, which becomes the first equal list that was added. */
  int Add(SharedCosts* costs);

  /*! \brief Of all distinct lists. */
  size_t num_entries() const { return num_entries_; }

 private:
  struct Known {
    SharedCosts costs;
    int number;
  };

  std::unordered_multimap<size_t, Known> known_;  // by some of their entries
  size_t num_entries_ = 0;
};

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_DISTINCT_COSTS_H_
