/*!
 * \file min_sum.h
 * \brief Sums of tables of 32-bit numbers, minimised over one variable, for the bound by
 * mini-buckets.
 */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tofu {

using Cost = int32_t;

/*! \brief The largest absolute value in a table. 15 such values add up without overflow. */
constexpr Cost kMaxCost = Cost{1} << 27;

/*! \brief The fewest entries for which another thread saves time. */
constexpr size_t kEntriesOfPass = size_t{1} << 18;

/*! \brief Allocator that leaves entries uninitialised, for tables whose entries are all written
 * once. */
template <typename T>
struct Unwritten : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = Unwritten<U>;
  };
  template <typename U, typename... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    if constexpr (sizeof...(arguments) > 0) ::new (place) U(std::forward<Arguments>(arguments)...);
  }
};

using Costs = std::vector<Cost, Unwritten<Cost>>;
using SharedCosts = std::shared_ptr<const Costs>;

/*! \brief A function of the variables in `scope`, as a row-major table in which the last variable
 * changes fastest. Tables with equal entries share them. */
struct CostTable {
  std::vector<int> scope;
  SharedCosts entries;

  bool Holds(int variable) const {
    return std::find(scope.begin(), scope.end(), variable) != scope.end();
  }
};

/*! \brief Replaces equal lists of entries by one object with one number. */
class DistinctCosts {
 public:
  /*! \brief Return the number of `costs`, and replace it by the first equal list. */
  int Add(SharedCosts* costs);

  /*! \brief The number of entries of all distinct lists. */
  size_t num_entries() const { return num_entries_; }

 private:
  struct Known {
    SharedCosts costs;
    int number;
  };

  std::unordered_multimap<size_t, Known> known_;  // by a hash of some entries
  size_t num_entries_ = 0;
};

/*!
 * \brief Sum tables that all hold `variable`, and return the minimum over its values.
 *
 * `domain_sizes` has the number of values of every variable. The work is done on all cores. The
 * number of additions, (entries of the minimum) times (values of the variable), is added to
 * `additions`. If `least` is not null, it receives the least entry, which is subtracted from all
 * entries.
 */
CostTable MinimiseOut(const std::vector<const CostTable*>& tables, int variable,
                      const std::vector<size_t>& domain_sizes, double* additions,
                      Cost* least = nullptr);

/*! \brief Sum tables, and minimise over all variables that are not in `keep`, one after the other.
 */
CostTable Project(std::vector<const CostTable*> tables, const std::vector<int>& keep,
                  const std::vector<size_t>& domain_sizes, double* additions);

}  // namespace tofu
