/*!
 * \file loss.cuh
 * \brief Rules of the gradients of losses (nnvm/parts/loss.cc). A group is all elements, or a
 * position.
 */
#pragma once

#include "sum_rules.cuh"

namespace tofu::cuda {

/*! \brief data -> number of elements above the threshold */
template <typename T>
struct ValidCells : SumRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 1;
  TOFU_DEVICE Sum Cell(Index, const Place&, const T* cell) const {
    const Real threshold = static_cast<Real>(static_cast<T>(static_cast<Real>(a.valid_thresh)));
    return Sum{static_cast<Real>(cell[0]) > threshold ? 1.0 : 0.0};
  }
};

/*! \brief data, that number -> d_data, which is constant */
template <typename T>
struct MakeLossGradient : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 0;
  typedef Real Group;  // of every cell

  TOFU_DEVICE Group Prepare(Index) const {
    const double count = *a.Input<double>(1);
    return static_cast<Real>(a.labels.scale) / static_cast<Real>(count > 1 ? count : 1);
  }
  TOFU_DEVICE Real Cell(const Group& share, const Place&, const T*) const { return share; }
};

/*! \brief data -> data times a number of its type */
template <typename T>
struct Scale : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 1;
  typedef Real Group;  // the factor

  TOFU_DEVICE Group Prepare(Index) const {
    return static_cast<Real>(static_cast<T>(static_cast<Real>(a.labels.scale)));
  }
  TOFU_DEVICE Real Cell(const Group& scale, const Place&, const T* cell) const {
    return static_cast<Real>(cell[0]) * scale;
  }
};

}  // namespace tofu::cuda
