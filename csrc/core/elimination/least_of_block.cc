/*!
 * \file least_of_block.cc
 */
#include "core/elimination/least_of_block.h"

#include <algorithm>
#include <limits>

#include "core/base/byte_loops.h"

namespace tofu {

namespace {

TOFU_VECTORISED void AddRow(const int64_t* __restrict__ bytes, const uint64_t* __restrict__ ties,
                            size_t count, int64_t* __restrict__ sums,
                            uint64_t* __restrict__ tie_sums) {
  for (size_t i = 0; i < count; ++i) {
    sums[i] += bytes[i];
    tie_sums[i] += ties[i];
  }
}

/*! \brief Replace the best value where bytes, or equal bytes and the tie, are less. */
TOFU_VECTORISED void TakeLess(int64_t own_bytes, const int64_t* bytes0, const int64_t* bytes1,
                              const int64_t* bytes2, uint64_t own_tie, const uint64_t* ties0,
                              const uint64_t* ties1, const uint64_t* ties2, size_t count,
                              uint64_t value, int64_t* __restrict__ least_bytes,
                              uint64_t* __restrict__ least_ties, uint64_t* __restrict__ best) {
  for (size_t i = 0; i < count; ++i) {
    const int64_t bytes = own_bytes + bytes0[i] + bytes1[i] + bytes2[i];
    const uint64_t tie = own_tie + ties0[i] + ties1[i] + ties2[i];
    const bool is_less =
        (bytes < least_bytes[i]) | ((bytes == least_bytes[i]) & (tie < least_ties[i]));
    least_bytes[i] = is_less ? bytes : least_bytes[i];
    least_ties[i] = is_less ? tie : least_ties[i];
    best[i] = is_less ? value : best[i];
  }
}

}  // namespace

LeastOfBlock::LeastOfBlock(size_t size)
    : sums_(size),
      tie_sums_(size),
      no_bytes_(size, 0),
      no_ties_(size, 0),
      least_bytes_(size),
      least_ties_(size),
      best_(size) {}

void LeastOfBlock::Begin(int64_t bytes, uint64_t tie) {
  own_bytes_ = bytes;
  own_tie_ = tie;
  num_rows_ = 0;
}

void LeastOfBlock::Add(const int64_t* bytes, const uint64_t* ties) {
  if (ties == nullptr) ties = no_ties_.data();
  if (num_rows_ < kRows) {
    bytes_[num_rows_] = bytes;
    ties_[num_rows_++] = ties;
    return;
  }
  if (bytes_[0] != sums_.data()) {
    std::copy_n(bytes_[0], sums_.size(), sums_.data());
    std::copy_n(ties_[0], sums_.size(), tie_sums_.data());
    bytes_[0] = sums_.data();
    ties_[0] = tie_sums_.data();
  }
  AddRow(bytes, ties, sums_.size(), sums_.data(), tie_sums_.data());
}

void LeastOfBlock::End(size_t value) {
  for (; num_rows_ < kRows; ++num_rows_) {
    bytes_[num_rows_] = no_bytes_.data();
    ties_[num_rows_] = no_ties_.data();
  }
  if (value == 0) {  // larger than any sum
    std::fill(least_bytes_.begin(), least_bytes_.end(), std::numeric_limits<int64_t>::max());
    std::fill(least_ties_.begin(), least_ties_.end(), std::numeric_limits<uint64_t>::max());
  }
  TakeLess(own_bytes_, bytes_[0], bytes_[1], bytes_[2], own_tie_, ties_[0], ties_[1], ties_[2],
           best_.size(), value, least_bytes_.data(), least_ties_.data(), best_.data());
}

void LeastOfBlock::Write(int64_t* bytes, uint64_t* ties, uint16_t* best) const {
  std::copy(least_bytes_.begin(), least_bytes_.end(), bytes);
  std::copy(least_ties_.begin(), least_ties_.end(), ties);
  for (size_t i = 0; i < best_.size(); ++i) best[i] = static_cast<uint16_t>(best_[i]);
}

}  // namespace tofu
