/*!
 * \file sum_rules.cuh
 * \brief Sums over groups, including those that BatchNorm and LayerNorm share: of data, and of
 * squares around the mean. `count` is the number of elements of the whole tensor per group.
 */
#pragma once

#include "group_loops.cuh"

namespace tofu::cuda {

/*! \brief Base of rules that compute a sum of each group. */
struct SumRule {
  typedef Sum Result;  // for rules that prepare nothing for a group
  typedef Index Group;
  TOFU_DEVICE Sum Nothing() const { return Sum{0}; }
  TOFU_DEVICE Index Prepare(Index group) const { return group; }
  TOFU_DEVICE void Store(Index group, const Sum& sum) const {
    StoreElement<double>(a, 0, group, sum.value);
  }
  const PartArguments& a;
};

/*! \brief Base of rules that compute two sums. */
struct TwoSumsRule : SumRule {
  typedef SumPair Result;
  TOFU_DEVICE SumPair Nothing() const { return SumPair{0, 0}; }
  TOFU_DEVICE void Store(Index group, const SumPair& sums) const {
    StoreElement<double>(a, 0, group, sums.first);
    StoreElement<double>(a, 1, group, sums.second);
  }
};

/*! \brief data -> sum of each group. */
template <typename T>
struct DataSum : SumRule {
  static constexpr int kStreams = 1;
  TOFU_DEVICE Sum Cell(Index, const Place&, const T* cell) const {
    return Sum{static_cast<double>(cell[0])};
  }
};

/*! \brief data, sum -> sum of (data - mean)^2 of each group. */
template <typename T>
struct DataSquares : SumRule {
  typedef double Group;  // the mean
  static constexpr int kStreams = 1;
  TOFU_DEVICE Group Prepare(Index group) const { return a.Input<double>(1)[group] / a.count; }
  TOFU_DEVICE Sum Cell(const Group& mean, const Place&, const T* cell) const {
    const double deviation = static_cast<double>(cell[0]) - mean;
    return Sum{deviation * deviation};
  }
};

}  // namespace tofu::cuda
