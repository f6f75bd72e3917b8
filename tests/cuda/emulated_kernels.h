/*!
 * \file emulated_kernels.h
 * \brief Every kernel of csrc/cuda, compiled as C++ for every element type, under its own name.
 */
#ifndef TOFU_TESTS_CUDA_EMULATED_KERNELS_H_
#define TOFU_TESTS_CUDA_EMULATED_KERNELS_H_

#include "cuda/fetch_table.cuh"
#include "emulation.h"

#define TOFU_TYPE float32
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE
#define TOFU_TYPE float64
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE
#define TOFU_TYPE float16
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE
#define TOFU_TYPE bfloat16
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE
#define TOFU_TYPE uint8
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE
#define TOFU_TYPE int8
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE
#define TOFU_TYPE int32
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE
#define TOFU_TYPE int64
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE
#define TOFU_TYPE bool
#include "cuda/multi_fetch.cu"
#undef TOFU_TYPE

namespace tofu_test {

/*! \brief Launches the kernel that `function` is the address of. */
inline void RunKernel(void* function, LaunchShape shape, const void* argument) {
  const auto* fetch = static_cast<const tofu::cuda::FetchArguments*>(argument);
  const auto kernel = reinterpret_cast<void (*)(tofu::cuda::FetchArguments)>(function);
  RunThreads(shape, [&] { kernel(*fetch); });
}

}  // namespace tofu_test

#endif  // TOFU_TESTS_CUDA_EMULATED_KERNELS_H_
