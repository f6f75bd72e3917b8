/*!
 * \file sum_rules.cuh
 * \brief Sums over groups, and those that BatchNorm and LayerNorm share: of the data, and of
 * squares around the mean. `count` is the number of cells of the whole tensor in each group.
 */
#ifndef TOFU_CUDA_SUM_RULES_CUH_
#define TOFU_CUDA_SUM_RULES_CUH_

#include "group_loops.cuh"

namespace tofu {
namespace cuda {

/*! \brief What rules have in common that hand out one or two sums of each group. */
struct SumRule {
  typedef SumPair Result;
  TOFU_DEVICE explicit SumRule(const PartArguments& arguments) : a(arguments) {}
  TOFU_DEVICE SumPair Nothing() const { return SumPair{0, 0}; }
  TOFU_DEVICE void StoreFirst(Index group, const SumPair& sums) const {
    StoreElement<double>(a, 0, group, sums.first);
  }
  TOFU_DEVICE void StoreBoth(Index group, const SumPair& sums) const {
    StoreFirst(group, sums);
    StoreElement<double>(a, 1, group, sums.second);
  }
  const PartArguments& a;
};

/*! \brief data -> sum of each group. */
template <typename T>
struct DataSum : SumRule {
  using SumRule::SumRule;
  TOFU_DEVICE SumPair Cell(Index, Index, Index i) const {
    return SumPair{static_cast<double>(a.Input<T>(0)[i]), 0};
  }
  TOFU_DEVICE void Store(Index group, const SumPair& sums) const { StoreFirst(group, sums); }
};

/*! \brief data, sum -> sum of (data - mean)^2 of each group. */
template <typename T>
struct DataSquares : SumRule {
  using SumRule::SumRule;
  TOFU_DEVICE SumPair Cell(Index group, Index, Index i) const {
    const double mean = a.Input<double>(1)[group] / a.count;
    const double deviation = static_cast<double>(a.Input<T>(0)[i]) - mean;
    return SumPair{deviation * deviation, 0};
  }
  TOFU_DEVICE void Store(Index group, const SumPair& sums) const { StoreFirst(group, sums); }
};

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_SUM_RULES_CUH_
