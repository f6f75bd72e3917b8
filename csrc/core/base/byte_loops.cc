/*!
 * \file byte_loops.cc
 */
#include "core/base/byte_loops.h"

#include <algorithm>
#include <limits>

namespace tofu {

TOFU_VECTORISED void LowerTo(int64_t base, const int64_t* row, size_t count, int64_t* least) {
  for (size_t i = 0; i < count; ++i) least[i] = std::min(least[i], base + row[i]);
}

TOFU_VECTORISED void LowerToSum(const int64_t* a, const int64_t* b, size_t count, int64_t* least) {
  for (size_t i = 0; i < count; ++i) least[i] = std::min(least[i], a[i] + b[i]);
}

TOFU_VECTORISED int64_t LeastSum(const int64_t* a, const int64_t* b, size_t count) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < count; ++i) least = std::min(least, a[i] + b[i]);
  return least;
}

TOFU_VECTORISED int64_t LeastDifference(const int64_t* a, const int64_t* b, size_t count) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < count; ++i) least = std::min(least, a[i] - b[i]);
  return least;
}

TOFU_VECTORISED int64_t SumProducts(const int64_t* const* rows, size_t num_rows, size_t count) {
  constexpr size_t kBlock = 64;
  int64_t products[kBlock];
  int64_t sum = 0;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t length = std::min(kBlock, count - begin);
    std::copy(rows[0] + begin, rows[0] + begin + length, products);
    for (size_t row = 1; row < num_rows; ++row) {
      for (size_t i = 0; i < length; ++i) products[i] *= rows[row][begin + i];
    }
    for (size_t i = 0; i < length; ++i) sum += products[i];
  }
  return sum;
}

}  // namespace tofu
