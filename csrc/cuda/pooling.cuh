/*!
 * \file pooling.cuh
 * \brief The rule of average pooling's part: what nnvm/pooling.cc does on a CPU. A group is a
 * position.
 */
#ifndef TOFU_CUDA_POOLING_CUH_
#define TOFU_CUDA_POOLING_CUH_

#include "group_loops.cuh"

namespace tofu {
namespace cuda {

/*! \brief data -> data / cells of the window */
template <typename T>
struct DivideByWindow {
  typedef typename RealType<T>::type Real;
  typedef Real Group;  // how many cells the window has
  TOFU_DEVICE explicit DivideByWindow(const PartArguments& arguments) : a(arguments) {}

  TOFU_DEVICE Group Prepare(Index position) const {
    return static_cast<Real>(a.window.CountCells(position));
  }
  TOFU_DEVICE void Write(const Group& cells, Index, Index i) const {
    StoreElement<T>(a, 0, i, static_cast<Real>(a.Input<T>(0)[i]) / cells);
  }
  TOFU_DEVICE void Finish(const Group&, Index) const {}
  const PartArguments& a;
};

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_POOLING_CUH_
