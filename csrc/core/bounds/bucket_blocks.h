/*!
 * \file bucket_blocks.h
 * \brief The tables of a bucket as blocks that are contiguous in memory.
 */
#ifndef TOFU_CORE_BOUNDS_BUCKET_BLOCKS_H_
#define TOFU_CORE_BOUNDS_BUCKET_BLOCKS_H_

#include <cstddef>
#include <map>
#include <vector>

#include "core/bounds/min_sum.h"

namespace tofu {

/*!
 * \brief Tables that hold an eliminated variable x, transposed where that pays.
 *
 * The inner variable y is contiguous in tables that hold it, x in the others. Among the outer
 * variables, those that the tables of x and y lack change fastest, so that blocks of x and y stay
 * in the cache.
 */
class BucketBlocks {
 public:
  /*! \brief Prepare tables that all hold `variable`. `domain_sizes` has the number of values of
   * every variable; a reference is kept. */
  BucketBlocks(const std::vector<const CostTable*>& tables, int variable,
               const std::vector<size_t>& domain_sizes);

  size_t rows() const { return rows_; }        // values of x
  size_t columns() const { return columns_; }  // values of y
  size_t count() const { return count_; }      // assignments of the outer variables
  /*! \brief The outer variables, ascending, then the inner one. */
  const std::vector<int>& scope() const { return scope_; }

  /*! \brief Write minima for the assignments [begin, end) of the outer variables to their places in
   * a table over the scope. Return the least of them. */
  Cost Minimise(size_t begin, size_t end, Cost* minima) const;

 private:
  struct Placed {
    SharedCosts entries;
    size_t row_stride = 0;
    std::vector<size_t> strides;  // by outer variable; 0 if the table lacks it

    size_t Offset(const std::vector<size_t>& digits) const;
    const Cost* At(const std::vector<size_t>& digits) const {
      return entries->data() + Offset(digits);
    }
  };

  /*! \brief Return the variable in the fewest tables, of these the one with the most values, or -1.
   */
  int ChooseInner(const std::map<int, int>& occurrences) const;
  void OrderOuter(const std::vector<const CostTable*>& tables);
  void Add(const CostTable& table);
  Placed Place(const CostTable& table) const;
  bool Moves(const CostTable& table) const { return inner_ >= 0 && table.Holds(inner_); }
  /*! \brief Return true if transposing a table, which reads it once out of order, costs less than
   * it saves. */
  bool IsWorthTurning(const CostTable& table, const std::vector<int>& last) const;
  /*! \brief The table with the variables in `last` changing fastest. */
  CostTable TurnToEnd(const CostTable& table, const std::vector<int>& last) const;

  void AddFixed(const std::vector<size_t>& digits, Costs* base) const;
  void AddMoving(const std::vector<size_t>& digits, Costs* sum) const;

  const std::vector<size_t>& sizes_;
  int variable_;
  int inner_ = -1;
  size_t rows_;
  size_t columns_ = 1;
  size_t count_ = 1;
  size_t num_still_ = 1;    // assignments of the outer variables that `moving_` lacks
  std::vector<int> outer_;  // the last changes fastest
  std::vector<int> scope_;
  std::vector<Placed> fixed_;   // tables without y
  std::vector<Placed> moving_;  // tables with y
  Placed minima_;
};

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_BUCKET_BLOCKS_H_
