/*!
 * \file bucket_blocks.h
 * \brief The tables of a bucket as blocks: the variable that goes and one of the scope, contiguous
 * in memory.
 */
#ifndef TOFU_CORE_BOUNDS_BUCKET_BLOCKS_H_
#define TOFU_CORE_BOUNDS_BUCKET_BLOCKS_H_

#include <cstddef>
#include <map>
#include <vector>

#include "core/bounds/min_sum.h"

namespace tofu {

/*!
 * \brief The tables of a bucket, where needed turned so that one variable y of the scope, chosen as
 * the inner one, is contiguous in those that hold it, and the variable x that goes in the others.
 *
 * The tables of x and y are what takes time to read: of the other variables, the outer ones, those
 * that they lack move fastest, so that blocks of x and y stay in the cache.
 */
class BucketBlocks {
 public:
  /*! \brief All tables hold `variable`, x. `domain_sizes` are the numbers of values of all
   * variables, and have to outlive this. */
  BucketBlocks(const std::vector<const CostTable*>& tables, int variable,
               const std::vector<size_t>& domain_sizes);

  size_t rows() const { return rows_; }        // values of x
  size_t columns() const { return columns_; }  // values of y
  size_t count() const { return count_; }      // assignments of the outer variables
  /*! \brief The outer variables, ascending, then the inner one. */
  const std::vector<int>& scope() const { return scope_; }

  /*! \brief The minima at the assignments [begin, end) of the outer variables go to their places in
   * a table over the scope; the least of them. */
  Cost Minimise(size_t begin, size_t end, Cost* minima) const;

 private:
  struct Placed {
    SharedCosts entries;
    size_t row_stride = 0;
    std::vector<size_t> strides;  // by outer variable; 0 where the table lacks it

    size_t Offset(const std::vector<size_t>& digits) const;
    const Cost* At(const std::vector<size_t>& digits) const {
      return entries->data() + Offset(digits);
    }
  };

  /*! \brief The variable in fewest tables, of those the one of most values; -1 for none. */
  int ChooseInner(const std::map<int, int>& occurrences) const;
  void OrderOuter(const std::vector<const CostTable*>& tables);
  void Add(const CostTable& table);
  Placed Place(const CostTable& table) const;
  bool Moves(const CostTable& table) const { return inner_ >= 0 && table.Holds(inner_); }
  /*! \brief To turn a table reads it once, in another order than it lies: what is read so once
   * anyway stays as it is, but for vectors. */
  bool IsWorthTurning(const CostTable& table, const std::vector<int>& last) const;
  /*! \brief The table with the variables in `last` as its fastest ones. */
  CostTable TurnToEnd(const CostTable& table, const std::vector<int>& last) const;

  void AddFixed(const std::vector<size_t>& digits, Costs* base) const;
  void AddMoving(const std::vector<size_t>& digits, Costs* sum) const;

  const std::vector<size_t>& sizes_;
  int variable_;
  int inner_ = -1;
  size_t rows_;
  size_t columns_ = 1;
  size_t count_ = 1;
  size_t num_still_ = 1;    // assignments of the outer variables that `moving_` lack
  std::vector<int> outer_;  // the fastest last
  std::vector<int> scope_;
  std::vector<Placed> fixed_;   // tables without y
  std::vector<Placed> moving_;  // with it
  Placed minima_;
};

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_BUCKET_BLOCKS_H_
