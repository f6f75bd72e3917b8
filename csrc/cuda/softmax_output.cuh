/*!
 * \file softmax_output.cuh
 * \brief The rules of the parts of SoftmaxOutput's gradient: what nnvm/parts/softmax_output.cc does
 * on a CPU. A group is all labels, or a line of classes.
 */
#ifndef TOFU_CUDA_SOFTMAX_OUTPUT_CUH_
#define TOFU_CUDA_SOFTMAX_OUTPUT_CUH_

#include "sum_rules.cuh"

namespace tofu {
namespace cuda {

/*! \brief The class that a label stands for. */
template <typename T>
TOFU_DEVICE int ClassOf(const T& label) {
  return static_cast<int>(static_cast<typename RealType<T>::type>(label));
}

/*! \brief label -> how many are not to be ignored */
template <typename T>
struct ValidLabels : SumRule {
  using SumRule::SumRule;
  TOFU_DEVICE SumPair Cell(Index, Index, Index i) const {
    return SumPair{ClassOf(a.Input<T>(0)[i]) != a.labels.ignored ? 1.0 : 0.0, 0};
  }
  TOFU_DEVICE void Store(Index, const SumPair& sums) const { StoreFirst(0, sums); }
};

/*! \brief out, label -> d_data; divided by the number of valid labels where that is a third input
 */
template <typename T>
struct SoftmaxOutputGradient : CellRule {
  typedef typename RealType<T>::type Real;
  struct Group {
    Index wanted;  // the class of the line's label, counted from the first one here
    Real scale;
  };
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index line) const {
    const int wanted = ClassOf(a.Input<T>(1)[line]);
    const double count = a.num_inputs == 3 ? *a.Input<double>(2) : 1;
    const float share = a.labels.scale / static_cast<float>(count > 1 ? count : 1);
    const bool is_ignored = a.labels.are_ignored && wanted == a.labels.ignored;
    return Group{wanted - a.labels.first,
                 is_ignored ? static_cast<Real>(0) : static_cast<Real>(share)};
  }
  TOFU_DEVICE void Write(const Group& group, Index position, Index i) const {
    const Real right = 1 - static_cast<Real>(a.labels.smoothing);
    const Real wrong = static_cast<Real>(a.labels.SharePerClass());
    const Real expected = position == group.wanted ? right : wrong;
    StoreElement<T>(a, 0, i, (static_cast<Real>(a.Input<T>(0)[i]) - expected) * group.scale);
  }
};

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_SOFTMAX_OUTPUT_CUH_
