/*!
 * \file softmax.cuh
 * \brief Rules of softmax and log_softmax in parts (nnvm/parts/softmax.cc). A group is a line.
 */
#pragma once

#include "sum_rules.cuh"

namespace tofu::cuda {

/*! \brief The maximum; keeps NaN. */
template <typename Real>
struct Largest {
  Real value;
  TOFU_DEVICE void Merge(const Largest& other) {
    if (!(value >= other.value || value != value)) value = other.value;
  }
};

/*! \brief data -> maximum of each line */
template <typename T>
struct SoftmaxMaximum : SumRule {
  typedef typename SumType<T>::type Real;
  typedef Largest<Real> Result;
  static constexpr int kStreams = 1;
  TOFU_DEVICE Result Nothing() const {
    return Result{static_cast<Real>(BitsAs<float>(0xff800000u))};  // minus infinity
  }
  TOFU_DEVICE Result Cell(Index, const Place&, const T* cell) const {
    return Result{static_cast<Real>(cell[0])};
  }
  TOFU_DEVICE void Store(Index line, const Result& largest) const {
    StoreElement<T>(a, 0, line, largest.value);
  }
};

/*! \brief Divide by the temperature, unless it is 1. */
template <typename Real>
TOFU_DEVICE Real OverTemperature(const PartArguments& a, Real value) {
  return a.temperature == 1 ? value : value / static_cast<Real>(a.temperature);
}

/*! \brief (element - maximum of the line) / temperature */
template <typename T, typename Real>
TOFU_DEVICE Real ScaledCell(const PartArguments& a, const T& cell, Real largest) {
  return OverTemperature(a, static_cast<Real>(cell) - largest);
}

/*! \brief Return exp(value) for data of type T. For halves, with 11 bits, a power of two to 22 bits
 * suffices; `exp` would take longer than the memory accesses. */
template <typename T, typename Real>
TOFU_DEVICE Real Exponential(Real value) {
  if constexpr (sizeof(T) < sizeof(Real)) {
    return RoughPowerOfTwo(value * 1.44269504f);  // over ln 2
  } else {
    return exp(value);
  }
}

/*! \brief data, maximum -> sum of exp((data - maximum) / temperature) */
template <typename T>
struct SoftmaxSum : SumRule {
  typedef typename SumType<T>::type Group;  // the maximum
  static constexpr int kStreams = 1;
  TOFU_DEVICE Group Prepare(Index line) const { return static_cast<Group>(a.Input<T>(1)[line]); }
  TOFU_DEVICE Sum Cell(const Group& largest, const Place&, const T* cell) const {
    return Sum{static_cast<double>(Exponential<T>(ScaledCell(a, cell[0], largest)))};
  }
};

/*! \brief data, maximum, sum -> softmax, or log_softmax if `kIsLog` */
template <typename T, bool kIsLog>
struct SoftmaxApply : CellRule {
  typedef typename SumType<T>::type Real;
  struct Group {
    Real largest;
    Real sum;  // or its logarithm
  };
  static constexpr int kStreams = 1;

  TOFU_DEVICE Group Prepare(Index line) const {
    const double sum = a.Input<double>(2)[line];
    return Group{static_cast<Real>(a.Input<T>(1)[line]),
                 static_cast<Real>(kIsLog ? log(sum) : sum)};
  }
  TOFU_DEVICE Real Cell(const Group& group, const Place&, const T* cell) const {
    const Real scaled = ScaledCell(a, cell[0], group.largest);
    return kIsLog ? scaled - group.sum : Exponential<T>(scaled) / group.sum;
  }
};

/*! \brief d_out, out -> sum of d_out * out; of d_out, the only input, if `kIsLog` */
template <typename T, bool kIsLog>
struct SoftmaxBackwardSum : SumRule {
  static constexpr int kStreams = kIsLog ? 1 : 2;
  TOFU_DEVICE Sum Cell(Index, const Place&, const T* cell) const {
    const double d_out = static_cast<double>(cell[0]);
    return Sum{kIsLog ? d_out : d_out * static_cast<double>(cell[kStreams - 1])};
  }
};

/*! \brief d_out, out, sum -> d_data */
template <typename T, bool kIsLog>
struct SoftmaxBackwardApply : CellRule {
  typedef typename SumType<T>::type Real;
  typedef Real Group;  // the sum
  static constexpr int kStreams = 2;

  TOFU_DEVICE Group Prepare(Index line) const {
    return static_cast<Real>(a.Input<double>(2)[line]);
  }
  TOFU_DEVICE Real Cell(const Group& sum, const Place&, const T* cell) const {
    const Real own = static_cast<Real>(cell[0]);
    const Real value = static_cast<Real>(cell[1]);
    return OverTemperature(a, kIsLog ? own - Exponential<T>(value) * sum : value * (own - sum));
  }
};

}  // namespace tofu::cuda
