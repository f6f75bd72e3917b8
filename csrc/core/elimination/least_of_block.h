/*!
 * \file least_of_block.h
 * \brief The best value of a variable beside each assignment of a block, in vectors.
 *
 * Bytes and ties lie apart: so both are plain sums of 64 bits.
 */
#ifndef TOFU_CORE_ELIMINATION_LEAST_OF_BLOCK_H_
#define TOFU_CORE_ELIMINATION_LEAST_OF_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tofu {

class LeastOfBlock {
 public:
  explicit LeastOfBlock(size_t size)
      : bytes_(size), ties_(size), least_bytes_(size), least_ties_(size), best_(size) {}

  /*! \brief Begins the sums of a value, with the same for each assignment. */
  void Begin(int64_t bytes, uint64_t tie);

  /*! \brief Adds a table's row to the sums; without `ties` those are zero. */
  void Add(const int64_t* bytes, const uint64_t* ties);

  /*! \brief Ends the sums of a value, which is taken where it is better than all before. Values
   * come from 0 on. */
  void End(size_t value);

  void Write(int64_t* bytes, uint64_t* ties, uint16_t* best) const;

 private:
  std::vector<int64_t> bytes_;
  std::vector<uint64_t> ties_;
  std::vector<int64_t> least_bytes_;
  std::vector<uint64_t> least_ties_;
  std::vector<uint64_t> best_;  // as wide as what it is chosen by
};

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_LEAST_OF_BLOCK_H_
