/*!
 * \file bucket_blocks.h
 * \brief Minimisation over a bucket (the tables that hold one variable) in blocks that are
 * contiguous in memory.
 */
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "core/bounds/min_sum.h"

namespace tofu {

/*!
 * \brief Tables that hold an eliminated variable x. They are transposed if that saves time.
 *
 * One other variable y is the inner variable. It is contiguous in tables that hold it, and x is
 * contiguous in all other tables. All remaining variables are outer variables. The outer variables
 * that the tables with y lack change fastest, so that blocks of x and y stay in the cache.
 */
class BucketBlocks {
 public:
  /*! \brief Prepare tables that all hold `variable`. `domain_sizes` has the number of values of
   * every variable, and must outlive this object. */
  BucketBlocks(const std::vector<const CostTable*>& tables, int variable,
               const std::vector<size_t>& domain_sizes);

  size_t rows() const { return rows_; }        // values of x
  size_t columns() const { return columns_; }  // values of y
  size_t count() const { return count_; }      // assignments of the outer variables
  /*! \brief The outer variables, ascending, then the inner one. */
  const std::vector<int>& scope() const { return scope_; }

  /*! \brief Write the minima for the assignments [begin, end) of the outer variables to a table
   * over the scope. Return the least of them. */
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

  /*! \brief Return the variable that is in the fewest tables, or -1. If there are several, return
   * the one with the most values. */
  int ChooseInner(const std::map<int, int>& occurrences) const;
  void OrderOuter(const std::vector<const CostTable*>& tables);
  void Add(const CostTable& table);
  Placed Place(const CostTable& table) const;
  bool Moves(const CostTable& table) const { return inner_ >= 0 && table.Holds(inner_); }
  /*! \brief Return true if transposing a table saves more time than it takes. */
  bool IsWorthTransposing(const CostTable& table, const std::vector<int>& last) const;
  /*! \brief Return the table with the variables in `last` changing fastest. */
  CostTable TransposeToEnd(const CostTable& table, const std::vector<int>& last) const;

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
