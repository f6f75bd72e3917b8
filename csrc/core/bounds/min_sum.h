/*!
 * \file min_sum.h
 * \brief Sums of tables of small numbers with one variable minimised out: the loops in which bounds
 * spend their time.
 */
#ifndef TOFU_CORE_BOUNDS_MIN_SUM_H_
#define TOFU_CORE_BOUNDS_MIN_SUM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tofu {

using Cost = int32_t;

/*! \brief Tables hold no more and no less than this and its negative, so that 15 of them add up
 * without overflow. */
constexpr Cost kMaxCost = Cost{1} << 27;

/*! \brief Entries of a pass over tables that are worth a thread. */
constexpr size_t kEntriesOfPass = size_t{1} << 18;

/*! \brief Leaves entries as they are: whoever makes a table writes all of them. */
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

/*! \brief A function of the variables in `scope`; row-major, the last one fastest. Equal functions
 * of other variables share their entries. */
struct CostTable {
  std::vector<int> scope;
  SharedCosts entries;

  bool Holds(int variable) const {
    return std::find(scope.begin(), scope.end(), variable) != scope.end();
  }
};

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

/*!
 * \brief min over the values of `variable` of the sum of tables that all hold it, for each
 * assignment of their other variables.
 *
 * `domain_sizes` are the numbers of values of all variables. Takes (entries of the minimum) times
 * (values of the variable) steps, on all cores; `additions` is raised by their number. With `least`
 * the least of the minima goes there, and the entries are what lies above it.
 */
CostTable MinimiseOut(const std::vector<const CostTable*>& tables, int variable,
                      const std::vector<size_t>& domain_sizes, double* additions,
                      Cost* least = nullptr);

/*!
 * \brief The sum of tables with all variables but those in `keep` minimised out, one after the
 * other.
 */
CostTable Project(std::vector<const CostTable*> tables, const std::vector<int>& keep,
                  const std::vector<size_t>& domain_sizes, double* additions);

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_MIN_SUM_H_
