/*!
 * \file layer_norm.cuh
 * \brief The rules of LayerNorm's parts: what nnvm/parts/layer_norm.cc does on a CPU. A group is a
 * line.
 */
#ifndef TOFU_CUDA_LAYER_NORM_CUH_
#define TOFU_CUDA_LAYER_NORM_CUH_

#include "sum_rules.cuh"

namespace tofu {
namespace cuda {

/*! \brief data, gamma, beta, sum, squares -> out, mean, std */
template <typename T>
struct LayerNormApply : CellRule {
  typedef typename RealType<T>::type Real;
  struct Group {
    Real mean, std;
  };
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index line) const {
    const double variance = a.Input<double>(4)[line] / a.count;
    return Group{static_cast<Real>(a.Input<double>(3)[line] / a.count),
                 static_cast<Real>(sqrt(variance + a.eps))};
  }
  TOFU_DEVICE void Write(const Group& group, Index p, Index i) const {
    const Real normal = (static_cast<Real>(a.Input<T>(0)[i]) - group.mean) / group.std;
    const Real gamma = static_cast<Real>(a.Input<T>(1)[p]);
    StoreElement<T>(a, 0, i, normal * gamma + static_cast<Real>(a.Input<T>(2)[p]));
  }
  TOFU_DEVICE void Finish(const Group& group, Index line) const {
    StoreElement<T>(a, 1, line, group.mean);
    StoreElement<T>(a, 2, line, group.std);
  }
};

/*! \brief The normalised data of a cell, in double precision. Inputs are d_out, data, gamma, mean,
 * std. */
template <typename T>
TOFU_DEVICE double NormalisedCell(const PartArguments& a, Index line, Index i) {
  const double deviation =
      static_cast<double>(a.Input<T>(1)[i]) - static_cast<double>(a.Input<T>(3)[line]);
  return deviation / static_cast<double>(a.Input<T>(4)[line]);
}

/*! \brief d_out, data, gamma, mean, std -> sums of d_out * gamma, and of that times the normalised
 * data */
template <typename T>
struct LayerNormBackwardSums : SumRule {
  using SumRule::SumRule;
  TOFU_DEVICE SumPair Cell(Index line, Index p, Index i) const {
    const double scaled =
        static_cast<double>(a.Input<T>(0)[i]) * static_cast<double>(a.Input<T>(2)[p]);
    return SumPair{scaled, scaled * NormalisedCell<T>(a, line, i)};
  }
  TOFU_DEVICE void Store(Index line, const SumPair& sums) const { StoreBoth(line, sums); }
};

/*! \brief d_out, data, gamma, mean, std, both sums -> d_gamma, d_beta, which are outputs 1 and 2. A
 * group is a position. */
template <typename T>
struct LayerNormBackwardParameters : SumRule {
  typedef typename RealType<T>::type Real;
  using SumRule::SumRule;
  TOFU_DEVICE SumPair Cell(Index, Index line, Index i) const {
    const double d_out = static_cast<double>(a.Input<T>(0)[i]);
    return SumPair{d_out * NormalisedCell<T>(a, line, i), d_out};
  }
  TOFU_DEVICE void Store(Index p, const SumPair& sums) const {
    StoreElement<T>(a, 1, p, static_cast<Real>(sums.first));
    StoreElement<T>(a, 2, p, static_cast<Real>(sums.second));
  }
};

/*! \brief d_out, data, gamma, mean, std, both sums -> d_data */
template <typename T>
struct LayerNormBackwardApply : CellRule {
  typedef typename RealType<T>::type Real;
  struct Group {
    Real mean, std, common, projected;
  };
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index line) const {
    const double share = 1.0 / a.count;
    return Group{static_cast<Real>(a.Input<T>(3)[line]), static_cast<Real>(a.Input<T>(4)[line]),
                 static_cast<Real>(a.Input<double>(5)[line] * share),
                 static_cast<Real>(a.Input<double>(6)[line] * share)};
  }
  TOFU_DEVICE void Write(const Group& group, Index p, Index i) const {
    const Real normal = (static_cast<Real>(a.Input<T>(1)[i]) - group.mean) / group.std;
    const Real own = static_cast<Real>(a.Input<T>(0)[i]) * static_cast<Real>(a.Input<T>(2)[p]);
    StoreElement<T>(a, 0, i, (own - group.common - normal * group.projected) / group.std);
  }
};

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_LAYER_NORM_CUH_
