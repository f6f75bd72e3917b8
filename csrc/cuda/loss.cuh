/*!
 * \file loss.cuh
 * \brief The rules of the parts of the gradients of losses: what nnvm/parts/loss.cc does on a
 * CPU. A group is all cells, or a position.
 */
#ifndef TOFU_CUDA_LOSS_CUH_
#define TOFU_CUDA_LOSS_CUH_

#include "sum_rules.cuh"

namespace tofu {
namespace cuda {

/*! \brief data -> how many cells are above the threshold */
template <typename T>
struct ValidCells : SumRule {
  typedef typename RealType<T>::type Real;
  using SumRule::SumRule;
  TOFU_DEVICE SumPair Cell(Index, Index, Index i) const {
    const Real threshold = static_cast<Real>(static_cast<T>(static_cast<Real>(a.valid_thresh)));
    return SumPair{static_cast<Real>(a.Input<T>(0)[i]) > threshold ? 1.0 : 0.0, 0};
  }
  TOFU_DEVICE void Store(Index, const SumPair& sums) const { StoreFirst(0, sums); }
};

/*! \brief data, that number -> d_data, the same for every cell */
template <typename T>
struct MakeLossGradient : CellRule {
  typedef typename RealType<T>::type Real;
  typedef Real Group;  // of every cell
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index) const {
    const double count = *a.Input<double>(1);
    return static_cast<Real>(a.labels.scale) / static_cast<Real>(count > 1 ? count : 1);
  }
  TOFU_DEVICE void Write(const Group& share, Index, Index i) const {
    StoreElement<T>(a, 0, i, share);
  }
};

/*! \brief data -> data times a number of its type */
template <typename T>
struct Scale : CellRule {
  typedef typename RealType<T>::type Real;
  typedef Real Group;  // what every cell is multiplied by
  using CellRule::CellRule;

  TOFU_DEVICE Group Prepare(Index) const {
    return static_cast<Real>(static_cast<T>(static_cast<Real>(a.labels.scale)));
  }
  TOFU_DEVICE void Write(const Group& scale, Index, Index i) const {
    StoreElement<T>(a, 0, i, static_cast<Real>(a.Input<T>(0)[i]) * scale);
  }
};

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_LOSS_CUH_
