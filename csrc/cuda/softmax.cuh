/*!
 * \file softmax.cuh
 * \brief The rules of the parts of softmax and log_softmax: what nnvm/parts/softmax.cc does on a
 * CPU. A group is a line.
 */
#ifndef TOFU_CUDA_SOFTMAX_CUH_
#define TOFU_CUDA_SOFTMAX_CUH_

#include "sum_rules.cuh"

namespace tofu {
namespace cuda {

/*! \brief The largest number; keeps what is no number. */
template <typename Real>
struct Largest {
  Real value;
  TOFU_DEVICE void Merge(const Largest& other) {
    if (!(value >= other.value || value != value)) value = other.value;
  }
};

/*! \brief data -> the largest of each line */
template <typename T>
struct SoftmaxMaximum {
  typedef typename RealType<T>::type Real;
  typedef Largest<Real> Result;
  TOFU_DEVICE explicit SoftmaxMaximum(const PartArguments& arguments) : a(arguments) {}
  TOFU_DEVICE Result Nothing() const {
    return Result{static_cast<Real>(BitsAs<float>(0xff800000u))};  // minus infinity
  }
  TOFU_DEVICE Result Cell(Index, Index, Index i) const {
    return Result{static_cast<Real>(a.Input<T>(0)[i])};
  }
  TOFU_DEVICE void Store(Index line, const Result& largest) const {
    StoreElement<T>(a, 0, line, largest.value);
  }
  const PartArguments& a;
};

/*! \brief (data - largest of the line) / temperature. Inputs are data, largest, sum. */
template <typename T>
TOFU_DEVICE typename RealType<T>::type ScaledCell(const PartArguments& a, Index line, Index i) {
  typedef typename RealType<T>::type Real;
  const Real below = static_cast<Real>(a.Input<T>(0)[i]) - static_cast<Real>(a.Input<T>(1)[line]);
  return below / static_cast<Real>(a.temperature);
}

/*! \brief data, largest -> sum of exp((data - largest) / temperature) */
template <typename T>
struct SoftmaxSum : SumRule {
  using SumRule::SumRule;
  TOFU_DEVICE SumPair Cell(Index line, Index, Index i) const {
    return SumPair{static_cast<double>(exp(ScaledCell<T>(a, line, i))), 0};
  }
  TOFU_DEVICE void Store(Index line, const SumPair& sums) const { StoreFirst(line, sums); }
};

/*! \brief data, largest, sum -> softmax, or log_softmax where `kIsLog` */
template <typename T, bool kIsLog>
struct SoftmaxApply : CellRule {
  typedef typename RealType<T>::type Real;
  struct Group {
    Index line;
    Real sum;  // or its logarithm
  };
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index line) const {
    const double sum = a.Input<double>(2)[line];
    return Group{line, static_cast<Real>(kIsLog ? log(sum) : sum)};
  }
  TOFU_DEVICE void Write(const Group& group, Index, Index i) const {
    const Real scaled = ScaledCell<T>(a, group.line, i);
    StoreElement<T>(a, 0, i, kIsLog ? scaled - group.sum : exp(scaled) / group.sum);
  }
};

/*! \brief d_out, out -> sum of d_out * out; of d_out alone, the only input, where `kIsLog` */
template <typename T, bool kIsLog>
struct SoftmaxBackwardSum : SumRule {
  using SumRule::SumRule;
  TOFU_DEVICE SumPair Cell(Index, Index, Index i) const {
    const double d_out = static_cast<double>(a.Input<T>(0)[i]);
    return SumPair{kIsLog ? d_out : d_out * static_cast<double>(a.Input<T>(1)[i]), 0};
  }
  TOFU_DEVICE void Store(Index line, const SumPair& sums) const { StoreFirst(line, sums); }
};

/*! \brief d_out, out, sum -> d_data */
template <typename T, bool kIsLog>
struct SoftmaxBackwardApply : CellRule {
  typedef typename RealType<T>::type Real;
  typedef Real Group;  // the sum
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index line) const {
    return static_cast<Real>(a.Input<double>(2)[line]);
  }
  TOFU_DEVICE void Write(const Group& sum, Index, Index i) const {
    const Real own = static_cast<Real>(a.Input<T>(0)[i]);
    const Real value = static_cast<Real>(a.Input<T>(1)[i]);
    const Real result = kIsLog ? own - exp(value) * sum : value * (own - sum);
    StoreElement<T>(a, 0, i, result / static_cast<Real>(a.temperature));
  }
};

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_SOFTMAX_CUH_
