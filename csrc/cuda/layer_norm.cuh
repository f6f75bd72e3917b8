/*!
 * \file layer_norm.cuh
 * \brief Rules of LayerNorm's parts (nnvm/parts/layer_norm.cc). A group is a line.
 */
#pragma once

#include "sum_rules.cuh"

namespace tofu::cuda {

/*! \brief data, gamma, beta, sum, squares -> out, mean, std */
template <typename T>
struct LayerNormApply : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 1;
  struct Group {
    Real mean, std;
  };

  TOFU_DEVICE Group Prepare(Index line) const {
    const double variance = a.Input<double>(4)[line] / a.count;
    return Group{static_cast<Real>(a.Input<double>(3)[line] / a.count),
                 static_cast<Real>(sqrt(variance + a.eps))};
  }
  TOFU_DEVICE Real Cell(const Group& group, const Place& at, const T* cell) const {
    const Real normal = (static_cast<Real>(cell[0]) - group.mean) / group.std;
    const Real gamma = static_cast<Real>(a.Input<T>(1)[at.other]);
    return normal * gamma + static_cast<Real>(a.Input<T>(2)[at.other]);
  }
  TOFU_DEVICE void Finish(const Group& group, Index line) const {
    StoreElement<T>(a, 1, line, group.mean);
    StoreElement<T>(a, 2, line, group.std);
  }
};

/*! \brief Normalisation of a line, with a single division. */
template <typename Real>
struct Deviation {
  Real mean, inverse_std;
  template <typename T>
  TOFU_DEVICE Real Normalise(const T& cell) const {
    return (static_cast<Real>(cell) - mean) * inverse_std;
  }
};

/*! \brief The normalisation for inputs d_out, data, gamma, mean, std. */
template <typename T>
TOFU_DEVICE Deviation<typename SumType<T>::type> DeviationOf(const PartArguments& a, Index line) {
  typedef typename SumType<T>::type Real;
  return Deviation<Real>{static_cast<Real>(a.Input<T>(3)[line]),
                         1 / static_cast<Real>(a.Input<T>(4)[line])};
}

/*! \brief d_out, data, gamma, mean, std -> sums of d_out * gamma, and of d_out * gamma * normalised
 * data */
template <typename T>
struct LayerNormBackwardSums : TwoSumsRule {
  typedef typename SumType<T>::type Real;
  typedef Deviation<Real> Group;
  static constexpr int kStreams = 2;
  TOFU_DEVICE Group Prepare(Index line) const { return DeviationOf<T>(a, line); }
  TOFU_DEVICE SumPair Cell(const Group& group, const Place& at, const T* cell) const {
    const double scaled =
        static_cast<double>(cell[0]) * static_cast<double>(a.Input<T>(2)[at.other]);
    return SumPair{scaled, scaled * static_cast<double>(group.Normalise(cell[1]))};
  }
};

/*! \brief d_out, data, gamma, mean, std, both sums -> d_gamma, d_beta (outputs 1 and 2). A group is
 * a position. */
template <typename T>
struct LayerNormBackwardParameters : TwoSumsRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 2;
  TOFU_DEVICE SumPair Cell(Index, const Place& at, const T* cell) const {
    const double d_out = static_cast<double>(cell[0]);
    const Real normal = DeviationOf<T>(a, at.other).Normalise(cell[1]);
    return SumPair{d_out * static_cast<double>(normal), d_out};
  }
  TOFU_DEVICE void Store(Index p, const SumPair& sums) const {
    StoreElement<T>(a, 1, p, static_cast<Real>(sums.first));
    StoreElement<T>(a, 2, p, static_cast<Real>(sums.second));
  }
};

/*! \brief d_out, data, gamma, mean, std, both sums -> d_data */
template <typename T>
struct LayerNormBackwardApply : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 2;
  struct Group {
    Deviation<Real> deviation;
    Real common, projected;
  };

  TOFU_DEVICE Group Prepare(Index line) const {
    const double share = 1.0 / a.count;
    return Group{DeviationOf<T>(a, line), static_cast<Real>(a.Input<double>(5)[line] * share),
                 static_cast<Real>(a.Input<double>(6)[line] * share)};
  }
  TOFU_DEVICE Real Cell(const Group& group, const Place& at, const T* cell) const {
    const Real normal = group.deviation.Normalise(cell[1]);
    const Real own = static_cast<Real>(cell[0]) * static_cast<Real>(a.Input<T>(2)[at.other]);
    return (own - group.common - normal * group.projected) * group.deviation.inverse_std;
  }
};

}  // namespace tofu::cuda
