/*!
 * \file take.cuh
 * \brief Rules of lookups in a part of a table (nnvm/parts/take.cc). A group is an index, a
 * row of the table, or a line of the data.
 */
#pragma once

#include "sort_positions.cuh"

namespace tofu::cuda {

/*! \brief The element of row `row` at a place of the view, in a tensor with `rows` rows. */
TOFU_DEVICE Index CellOfRow(const PartArguments& a, Index rows, Index row, const Place& at) {
  return (at.outer * rows + row) * a.inner + (at.other - at.outer * a.inner);
}

/*! \brief table, indices -> rows, zeros for rows of other parts */
template <typename T>
struct Take : CellRule {
  typedef Index Group;  // the row
  static constexpr int kStreams = 0;

  TOFU_DEVICE Group Prepare(Index index) const { return a.positions.Locate(a.tensors[1], index); }
};

/*! \brief Elements of a row that are written together are adjacent in the table. */
template <typename T, typename Cells>
TOFU_DEVICE void ComputeBatch(const Take<T>& rule, const Index* prepared, const Cells& batch,
                              typename Cells::Real* values) {
  typedef typename Cells::Real Real;
  T cells[Cells::kCells] = {};
  const PartArguments& a = rule.a;
  const Index row = prepared[0];
  if (row >= 0) {
    batch.ReadAs(
        a.Input<T>(0), [&](const Place& at) { return CellOfRow(a, a.positions.extent, row, at); },
        cells);
  }
  TOFU_UNROLL
  for (int b = 0; b < Cells::kCells; ++b) values[b] = static_cast<Real>(cells[b]);
}

/*! \brief d_out, indices -> d_table. Sorting determines the indices of each row and the order of
 * additions. */
template <typename T>
struct TakeBackward : CellRule {
  typedef typename SumType<T>::type Real;
  struct Group {
    Index begin;  // of the row's keys
    Index end;
  };
  static constexpr int kStreams = 0;

  TOFU_DEVICE Group Prepare(Index row) const {
    return Group{a.sorting.begins[row], a.sorting.begins[row + 1]};
  }
};

/*! \brief All sums of a batch are computed together, so each index is read once. */
template <typename T, typename Cells>
TOFU_DEVICE void ComputeBatch(const TakeBackward<T>& rule,
                              const typename TakeBackward<T>::Group* prepared, const Cells& batch,
                              typename Cells::Real* values) {
  typedef typename Cells::Real Real;
  const PartArguments& a = rule.a;
  for (Index k = prepared->begin; k < prepared->end; ++k) {
    const Index index = IndexOfKey(a.sorting.keys[k]);
    T cells[Cells::kCells];
    batch.ReadAs(
        a.Input<T>(0), [&](const Place& at) { return CellOfRow(a, a.positions.count, index, at); },
        cells);
    TOFU_UNROLL
    for (int b = 0; b < Cells::kCells; ++b) values[b] += static_cast<Real>(cells[b]);
  }
}

/*! \brief data, an index per line -> elements, zeros for those of other parts. The view is of the
 * result, [outer][1][inner]. */
template <typename T>
struct Pick : CellRule {
  typedef Index Group;  // there is only one
  static constexpr int kStreams = 0;

  TOFU_DEVICE Group Prepare(Index group) const { return group; }
  TOFU_DEVICE typename SumType<T>::type Cell(const Group&, const Place& at, const T*) const {
    typedef typename SumType<T>::type Real;
    const Index row = a.positions.LocateOnLine(a.tensors[1], at.other);
    if (row < 0) return 0;
    return static_cast<Real>(a.Input<T>(0)[CellOfRow(a, a.positions.extent, row, at)]);
  }
};

/*! \brief d_out, an index per line -> d_data */
template <typename T>
struct PickBackward : CellRule {
  typedef typename SumType<T>::type Real;
  static constexpr int kStreams = 0;
  struct Group {
    Index row;
    Real d_out;
  };

  TOFU_DEVICE Group Prepare(Index line) const {
    return Group{a.positions.LocateOnLine(a.tensors[1], line),
                 static_cast<Real>(a.Input<T>(0)[line])};
  }
  TOFU_DEVICE Real Cell(const Group& group, const Place& at, const T*) const {
    return at.other == group.row ? group.d_out : static_cast<Real>(0);
  }
};

}  // namespace tofu::cuda
