/*!
 * \file least_of_block.h
 * \brief Vectorised minimisation over one variable, for a block of assignments of other variables.
 * Bytes and ties are separate arrays of 64-bit numbers.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tofu {

class LeastOfBlock {
 public:
  explicit LeastOfBlock(size_t size);

  /*! \brief Start the sums for a value of the variable. */
  void Begin(int64_t bytes, uint64_t tie);

  /*! \brief Add a table's row to the sums. `ties` is null if all are zero. Both arrays must stay
   * valid until End. */
  void Add(const int64_t* bytes, const uint64_t* ties);

  /*! \brief Finish the sums for a value, and keep those that are the least so far. Values come in
   * order, from 0. */
  void End(size_t value);

  void Write(int64_t* bytes, uint64_t* ties, uint16_t* best) const;

 private:
  static constexpr size_t kRows = 3;  // rows that are added in one loop

  int64_t own_bytes_ = 0;
  uint64_t own_tie_ = 0;
  size_t num_rows_ = 0;
  const int64_t* bytes_[kRows];
  const uint64_t* ties_[kRows];
  std::vector<int64_t> sums_;  // sums of the rows beyond kRows
  std::vector<uint64_t> tie_sums_;
  std::vector<int64_t> no_bytes_;  // rows of zeros
  std::vector<uint64_t> no_ties_;
  std::vector<int64_t> least_bytes_;
  std::vector<uint64_t> least_ties_;
  std::vector<uint64_t> best_;  // 64 bits, like the numbers that are compared
};

}  // namespace tofu
