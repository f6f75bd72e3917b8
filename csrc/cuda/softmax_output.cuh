/*!
 * \file softmax_output.cuh
 * \brief Rules of SoftmaxOutput's gradient in parts (nnvm/parts/softmax_output.cc). A group is
 * all labels, or a line of classes.
 */
#pragma once

#include "sum_rules.cuh"

namespace tofu::cuda {

/*! \brief The class of a label. */
template <typename T>
TOFU_DEVICE int ClassOf(const T& label) {
  return static_cast<int>(static_cast<typename SumType<T>::type>(label));
}

/*! \brief label -> number of labels that are not ignored */
template <typename T>
struct ValidLabels : SumRule {
  static constexpr int kStreams = 1;
  TOFU_DEVICE Sum Cell(Index, const Place&, const T* label) const {
    return Sum{ClassOf(label[0]) != a.labels.ignored ? 1.0 : 0.0};
  }
};

/*! \brief out, label -> d_data, divided by the number of valid labels if that is the third input */
template <typename T>
struct SoftmaxOutputGradient : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 1;
  struct Group {
    Index wanted;  // class of the line's label, relative to the first one here
    Real scale;
    bool is_ignored;
  };

  TOFU_DEVICE Group Prepare(Index line) const {
    const int wanted = ClassOf(a.Input<T>(1)[line]);
    const double count = a.num_inputs == 3 ? *a.Input<double>(2) : 1;
    const float share = a.labels.scale / static_cast<float>(count > 1 ? count : 1);
    const bool is_ignored = a.labels.are_ignored && wanted == a.labels.ignored;
    return Group{wanted - a.labels.first, static_cast<Real>(share), is_ignored};
  }
  TOFU_DEVICE Real Cell(const Group& group, const Place& at, const T* cell) const {
    const Real right = 1 - static_cast<Real>(a.labels.smoothing);
    const Real wrong = static_cast<Real>(a.labels.SharePerClass());
    const Real expected = at.other == group.wanted ? right : wrong;
    // Also if the output is NaN, the gradient of an ignored label is 0.
    return group.is_ignored ? static_cast<Real>(0)
                            : (static_cast<Real>(cell[0]) - expected) * group.scale;
  }
};

}  // namespace tofu::cuda
