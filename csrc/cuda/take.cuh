/*!
 * \file take.cuh
 * \brief The rules of lookups in a part of a table: what nnvm/parts/take.cc does on a CPU. A group
 * is an index, a row of the table, or a line of the data.
 */
#ifndef TOFU_CUDA_TAKE_CUH_
#define TOFU_CUDA_TAKE_CUH_

#include "group_loops.cuh"

namespace tofu {
namespace cuda {

/*! \brief Store what a table's row has at cell i of a view's line, zero where the row is not there.
 */
template <typename T>
TOFU_DEVICE void StoreRow(const PartArguments& a, Index row, Index line, Index i) {
  typedef typename RealType<T>::type Real;
  const Index outer = line / a.inner;
  const Index cell = (outer * a.positions.extent + row) * a.inner + (line - outer * a.inner);
  const Real value = row < 0 ? static_cast<Real>(0) : static_cast<Real>(a.Input<T>(0)[cell]);
  StoreElement<T>(a, 0, i, value);
}

/*! \brief table, indices -> the rows that they mean, zeros for those of other parts */
template <typename T>
struct Take : CellRule {
  typedef Index Group;  // the row
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index index) const { return a.positions.Locate(a.tensors[1], index); }
  TOFU_DEVICE void Write(const Group& row, Index line, Index i) const {
    StoreRow<T>(a, row, line, i);
  }
};

/*! \brief d_out, indices -> d_table. The same order of additions always, and no thread waits for
 * another: each one finds the indices that mean its row. */
template <typename T>
struct TakeBackward : CellRule {
  typedef typename RealType<T>::type Real;
  struct Group {
    Index row;
    Index begin;  // of the indices that may mean it
    Index end;
  };
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index row) const {
    Group group = {row, a.positions.count, 0};
    for (Index n = 0; n < a.positions.count; ++n) {
      if (a.positions.Locate(a.tensors[1], n) != row) continue;
      if (group.end == 0) group.begin = n;
      group.end = n + 1;
    }
    return group;
  }
  TOFU_DEVICE void Write(const Group& group, Index line, Index i) const {
    const Index outer = line / a.inner;
    const T* d_out = a.Input<T>(0) + outer * a.positions.count * a.inner + (line - outer * a.inner);
    Real sum = 0;
    for (Index n = group.begin; n < group.end; ++n) {
      if (a.positions.Locate(a.tensors[1], n) == group.row) {
        sum += static_cast<Real>(d_out[n * a.inner]);
      }
    }
    StoreElement<T>(a, 0, i, sum);
  }
};

/*! \brief data, an index for lines -> the cells that they mean, zeros for those of other parts.
 * The view is of what is picked, [outer][1][inner]. */
template <typename T>
struct Pick : CellRule {
  typedef Index Group;  // there is one alone
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index group) const { return group; }
  TOFU_DEVICE void Write(const Group&, Index line, Index i) const {
    StoreRow<T>(a, a.positions.LocateOnLine(a.tensors[1], line), line, i);
  }
};

/*! \brief d_out, an index for lines -> d_data */
template <typename T>
struct PickBackward : CellRule {
  typedef typename RealType<T>::type Real;
  struct Group {
    Index row;
    Real d_out;
  };
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index line) const {
    return Group{a.positions.LocateOnLine(a.tensors[1], line),
                 static_cast<Real>(a.Input<T>(0)[line])};
  }
  TOFU_DEVICE void Write(const Group& group, Index position, Index i) const {
    StoreElement<T>(a, 0, i, position == group.row ? group.d_out : static_cast<Real>(0));
  }
};

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_TAKE_CUH_
