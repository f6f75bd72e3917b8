/*!
 * \file digest.h
 * \brief Whether memory holds what it held before, without a copy of it.
 */
#ifndef TOFU_CORE_BASE_DIGEST_H_
#define TOFU_CORE_BASE_DIGEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tofu {

/*!
 * \brief 64 bits that tell apart what memory holds at different times, at the speed of reading it.
 *
 * Each word is mixed into one of eight lanes by steps that can be undone, so a change of one word
 * is always seen; several changes go unseen with the chance of two random numbers of 64 bits being
 * equal. It is no defence against somebody who looks for equal ones.
 */
inline std::uint64_t DigestBytes(const void* memory, std::size_t bytes) {
  constexpr std::size_t kLanes = 8;
  constexpr std::size_t kBlock = kLanes * sizeof(std::uint64_t);
  const auto mix = [](std::uint64_t state, std::uint64_t word) {
    state = (state ^ word) * 0x9E3779B97F4A7C15U;  // odd, so that the product can be undone
    return state ^ (state >> 29U);                 // the upper bits reach the lower ones
  };
  std::array<std::uint64_t, kLanes> lanes = {1, 2, 3, 4, 5, 6, 7, 8};
  std::array<std::uint64_t, kLanes> words = {};
  const auto* at = static_cast<const unsigned char*>(memory);
  std::size_t left = bytes;
  for (; left >= kBlock; left -= kBlock, at += kBlock) {
    std::memcpy(words.data(), at, kBlock);
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  words = {};
  if (left > 0) std::memcpy(words.data(), at, left);
  std::uint64_t digest = bytes;
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    digest = mix(digest, mix(lanes[lane], words[lane]));
  return digest;
}

}  // namespace tofu

#endif  // TOFU_CORE_BASE_DIGEST_H_
