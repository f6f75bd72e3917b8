/*!
 * \file pooling.cuh
 * \brief The rule of average pooling's part (nnvm/parts/pooling.cc). A group is a position.
 */
#pragma once

#include "group_loops.cuh"

namespace tofu::cuda {

/*! \brief data -> data / elements of the window */
template <typename T>
struct DivideByWindow : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 1;
  typedef Real Group;  // elements of the window

  TOFU_DEVICE Group Prepare(Index position) const {
    return static_cast<Real>(a.window.CountCells(position));
  }
  TOFU_DEVICE Real Cell(const Group& cells, const Place&, const T* cell) const {
    return static_cast<Real>(cell[0]) / cells;
  }
};

}  // namespace tofu::cuda
