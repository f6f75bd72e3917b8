/*!
 * \file by_position.cuh
 * \brief Rules of one_hot and SequenceMask in parts (nnvm/parts/by_position.cc). A group is a
 * line along the compared dimension.
 */
#pragma once

#include "group_loops.cuh"

namespace tofu::cuda {

/*! \brief indices -> on_value at each, off_value elsewhere */
template <typename T>
struct OneHot : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 0;
  typedef Index Group;  // the position of the line's index

  TOFU_DEVICE Group Prepare(Index line) const { return a.positions.Locate(a.tensors[0], line); }
  TOFU_DEVICE Real Cell(const Group& meant, const Place& at, const T*) const {
    return static_cast<Real>(at.other == meant ? a.on_value : a.off_value);
  }
};

/*! \brief data, lengths -> data, off_value from each sequence's end on */
template <typename T>
struct SequenceMask : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 1;
  typedef Index Group;  // positions of the line that are kept

  TOFU_DEVICE Group Prepare(Index line) const {
    return a.positions.CountBefore(a.tensors[1], line / a.positions.lines);
  }
  TOFU_DEVICE Real Cell(const Group& kept, const Place& at, const T* cell) const {
    return at.other < kept ? static_cast<Real>(cell[0]) : static_cast<Real>(a.off_value);
  }
};

}  // namespace tofu::cuda
