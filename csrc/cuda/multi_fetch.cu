/*!
 * \file multi_fetch.cu
 * \brief Entry point of the fetch kernel for elements of type TOFU_TYPE, with a block per tile.
 */
#include "multi_fetch.cuh"

TOFU_KERNEL(tofu::cuda::kFetchThreads)
TOFU_TYPED(tofu_multi_fetch)(tofu::cuda::FetchArguments arguments) {
  tofu::cuda::FetchTile<TOFU_ELEMENT>(arguments);
}
