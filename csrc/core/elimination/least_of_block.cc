/*!
 * \file least_of_block.cc
 * \brief The loops, plain enough for the compiler to vectorise.
 */
#include "core/elimination/least_of_block.h"

#include <algorithm>

#include "core/base/vectorised.h"

namespace tofu {

namespace {

template <typename Number>
inline void AddTo(const Number* __restrict__ row, size_t count, Number* __restrict__ sums) {
  for (size_t i = 0; i < count; ++i) sums[i] += row[i];
}

TOFU_VECTORISED void AddBytes(const int64_t* row, size_t count, int64_t* sums) {
  AddTo(row, count, sums);
}

TOFU_VECTORISED void AddTies(const uint64_t* row, size_t count, uint64_t* sums) {
  AddTo(row, count, sums);
}

TOFU_VECTORISED void TakeLess(const int64_t* __restrict__ bytes, const uint64_t* __restrict__ ties,
                              size_t count, uint64_t value, int64_t* __restrict__ least_bytes,
                              uint64_t* __restrict__ least_ties, uint64_t* __restrict__ best) {
  for (size_t i = 0; i < count; ++i) {
    const bool is_less =
        (bytes[i] < least_bytes[i]) | ((bytes[i] == least_bytes[i]) & (ties[i] < least_ties[i]));
    least_bytes[i] = is_less ? bytes[i] : least_bytes[i];
    least_ties[i] = is_less ? ties[i] : least_ties[i];
    best[i] = is_less ? value : best[i];
  }
}

}  // namespace

void LeastOfBlock::Begin(int64_t bytes, uint64_t tie) {
  std::fill(bytes_.begin(), bytes_.end(), bytes);
  std::fill(ties_.begin(), ties_.end(), tie);
}

void LeastOfBlock::Add(const int64_t* bytes, const uint64_t* ties) {
  AddBytes(bytes, bytes_.size(), bytes_.data());
  if (ties != nullptr) AddTies(ties, ties_.size(), ties_.data());
}

void LeastOfBlock::End(size_t value) {
  if (value == 0) {
    std::copy(bytes_.begin(), bytes_.end(), least_bytes_.begin());
    std::copy(ties_.begin(), ties_.end(), least_ties_.begin());
    std::fill(best_.begin(), best_.end(), 0);
    return;
  }
  TakeLess(bytes_.data(), ties_.data(), bytes_.size(), value, least_bytes_.data(),
           least_ties_.data(), best_.data());
}

void LeastOfBlock::Write(int64_t* bytes, uint64_t* ties, uint16_t* best) const {
  std::copy(least_bytes_.begin(), least_bytes_.end(), bytes);
  std::copy(least_ties_.begin(), least_ties_.end(), ties);
  for (size_t i = 0; i < best_.size(); ++i) best[i] = static_cast<uint16_t>(best_[i]);
}

}  // namespace tofu
