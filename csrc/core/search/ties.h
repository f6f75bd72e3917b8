/*!
 * \file ties.h
 * \brief Weights that decide between plans of equal cost.
 *
 * The plan with the least sum of weights is taken. Lower dimensions and axes weigh less, and
 * replicated weighs most. Earlier rounds count more than later ones. Smaller weights, from
 * structural labels and choices, make the plan unique. For a single round, the weights equal those
 * of the recursive search.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/graph/canonical.h"
#include "core/graph/graph.h"

namespace tofu {

class TieWeights {
 public:
  explicit TieWeights(int num_variables) {
    while ((uint64_t{1} << shift_) < static_cast<uint64_t>(num_variables) + 1) ++shift_;
    ++shift_;  // sums of num_variables numbers of 64 - shift_ bits stay below 2^64
  }

  /*! \brief Return the weight of one choice in one round. */
  uint64_t OfChoice(uint64_t label, int round, int choice) const {
    return Compose(Rank(choice), kRankBits, Hash(label, round, choice));
  }

  /*! \brief Return the weight of a sequence of choices. */
  uint64_t OfSequence(uint64_t label, const std::vector<int>& choices) const {
    // Late rounds have no rank if there are too few bits.
    const int most_rounds = std::max(1, (64 - 2 * shift_ - kHashBits) / kRankBits);
    const int rounds = std::min(static_cast<int>(choices.size()), most_rounds);
    uint64_t rank = 0;
    for (int round = 0; round < rounds; ++round) rank = (rank << kRankBits) + Rank(choices[round]);
    uint64_t hash = 0;
    for (size_t round = 0; round < choices.size(); ++round) {
      const uint64_t of_round = Hash(label, static_cast<int>(round), choices[round]);
      hash = round == 0 ? of_round : HashCombine(hash, of_round);
    }
    return Compose(rank, rounds * kRankBits, hash);
  }

 private:
  static constexpr int kRankBits = 4;
  static constexpr int kHashBits = 16;

  static uint64_t Rank(int choice) {
    constexpr int kLast = (1 << kRankBits) - 1;
    return choice == kReplicated ? kLast : std::min(choice, kLast - 1);
  }

  static uint64_t Hash(uint64_t label, int round, int choice) {
    return HashCombine(HashCombine(label, static_cast<uint64_t>(round)),
                       static_cast<uint64_t>(choice + 1));
  }

  /*! \brief Return a weight in which the sum of all hashes stays below one unit of the rank. */
  uint64_t Compose(uint64_t rank, int rank_bits, uint64_t hash) const {
    return (rank << (64 - shift_ - rank_bits)) + (hash >> (2 * shift_ + rank_bits));
  }

  int shift_ = 0;
};

}  // namespace tofu
