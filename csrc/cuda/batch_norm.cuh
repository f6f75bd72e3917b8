/*!
 * \file batch_norm.cuh
 * \brief Rules of BatchNorm's parts (nnvm/parts/batch_norm.cc). A group is a channel.
 */
#pragma once

#include "sum_rules.cuh"

namespace tofu::cuda {

/*! \brief Map data, gamma, beta, sum, squares (moving mean, moving variance if `kIsGlobal`) to out,
 * mean, 1 / std. A fixed gamma becomes 1 in training. */
template <typename T, bool kIsGlobal>
struct BatchNormApply : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 1;
  struct Group {
    Real center, inverse_std, scale, beta;
  };

  TOFU_DEVICE double Statistic(int input, Index c) const {
    return kIsGlobal ? static_cast<double>(a.Input<Real>(input)[c])
                     : a.Input<double>(input)[c] / a.count;
  }
  TOFU_DEVICE Group Prepare(Index c) const {
    const Real inverse_std = static_cast<Real>(1 / sqrt(Statistic(4, c) + a.eps));
    const Real gamma = a.fix_gamma ? Real(1) : a.Input<Real>(1)[c];
    return Group{static_cast<Real>(Statistic(3, c)), inverse_std, inverse_std * gamma,
                 a.Input<Real>(2)[c]};
  }
  TOFU_DEVICE Real Cell(const Group& group, const Place&, const T* cell) const {
    const Real deviation = static_cast<Real>(cell[0]) - group.center;
    return deviation * group.scale + group.beta;
  }
  TOFU_DEVICE void Finish(const Group& group, Index c) const {
    StoreElement<Real>(a, 1, c, group.center);
    StoreElement<Real>(a, 2, c, group.inverse_std);
    if (a.fix_gamma && a.is_train) static_cast<Real*>(a.tensors[1])[c] = Real(1);
  }
};

/*! \brief d_out, data, mean, 1 / std -> sums of d_out, and of d_out * normalised data */
template <typename T>
struct BatchNormBackwardSums : TwoSumsRule {
  typedef typename SumType<T>::type Real;
  struct Group {
    double center, inverse_std;
  };
  static constexpr int kStreams = 2;
  TOFU_DEVICE Group Prepare(Index c) const {
    return Group{static_cast<double>(a.Input<Real>(2)[c]),
                 static_cast<double>(a.Input<Real>(3)[c])};
  }
  TOFU_DEVICE SumPair Cell(const Group& group, const Place&, const T* cell) const {
    const double d_out = static_cast<double>(cell[0]);
    const double deviation = static_cast<double>(cell[1]) - group.center;
    return SumPair{d_out, d_out * (deviation * group.inverse_std)};
  }
};

/*! \brief d_out, data, mean, 1 / std, gamma, moving mean, moving variance, sums of d_out, sums of
 * d_out * normalised data -> d_data, d_gamma, d_beta. Changes the moving statistics in place. */
template <typename T>
struct BatchNormBackwardApply : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 2;
  struct Group {
    Real center, offset, slope, scale;
  };

  TOFU_DEVICE Group Prepare(Index c) const {
    const Real inverse_std = a.Input<Real>(3)[c];
    return Group{a.Input<Real>(2)[c], static_cast<Real>(a.Input<double>(7)[c] / a.count),
                 static_cast<Real>(a.Input<double>(8)[c] / a.count * inverse_std),
                 inverse_std * (a.fix_gamma ? Real(1) : a.Input<Real>(4)[c])};
  }
  TOFU_DEVICE Real Cell(const Group& group, const Place&, const T* cell) const {
    const Real deviation = static_cast<Real>(cell[1]) - group.center;
    const Real d_out = static_cast<Real>(cell[0]);
    return (d_out - group.offset - deviation * group.slope) * group.scale;
  }
  TOFU_DEVICE void Finish(const Group& group, Index c) const {
    StoreElement<Real>(a, 1, c, static_cast<Real>(a.fix_gamma ? 0 : a.Input<double>(8)[c]));
    StoreElement<Real>(a, 2, c, static_cast<Real>(a.Input<double>(7)[c]));
    const Real inverse_std = a.Input<Real>(3)[c];
    const Real variance = 1 / (inverse_std * inverse_std) - static_cast<Real>(a.eps);
    Move(static_cast<Real*>(a.tensors[5]) + c, group.center);
    Move(static_cast<Real*>(a.tensors[6]) + c, variance);
  }
  TOFU_DEVICE void Move(Real* moving, Real value) const {
    const Real kept = static_cast<Real>(a.momentum);
    *moving = *moving * kept + value * (1 - kept);
  }
};

}  // namespace tofu::cuda
