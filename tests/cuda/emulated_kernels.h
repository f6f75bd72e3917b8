/*!
 * \file emulated_kernels.h
 * \brief Every kernel of csrc/cuda, compiled as C++ for every element type, under its own name.
 */
#ifndef TOFU_TESTS_CUDA_EMULATED_KERNELS_H_
#define TOFU_TESTS_CUDA_EMULATED_KERNELS_H_

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "cuda/fetch_table.cuh"
#include "cuda/group_loops.cuh"
#include "cuda/launch_part.h"
#include "emulation.h"

#define TOFU_TYPE float32
#include "cuda/batch_norm.cu"
#include "cuda/by_position.cu"
#include "cuda/layer_norm.cu"
#include "cuda/loss.cu"
#include "cuda/multi_fetch.cu"
#include "cuda/pooling.cu"
#include "cuda/softmax.cu"
#include "cuda/softmax_output.cu"
#include "cuda/take.cu"
#undef TOFU_TYPE
#define TOFU_TYPE float64
#include "cuda/batch_norm.cu"
#include "cuda/by_position.cu"
#include "cuda/layer_norm.cu"
#include "cuda/loss.cu"
#include "cuda/multi_fetch.cu"
#include "cuda/pooling.cu"
#include "cuda/softmax.cu"
#include "cuda/softmax_output.cu"
#include "cuda/take.cu"
#undef TOFU_TYPE
#define TOFU_TYPE float16
#include "cuda/batch_norm.cu"
#include "cuda/by_position.cu"
#include "cuda/layer_norm.cu"
#include "cuda/loss.cu"
#include "cuda/multi_fetch.cu"
#include "cuda/pooling.cu"
#include "cuda/softmax.cu"
#include "cuda/softmax_output.cu"
#include "cuda/take.cu"
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

/*! \brief Launches the kernel of this name and address, whose only argument is given. */
inline void RunKernel(const char* name, void* function, LaunchShape shape, const void* argument) {
  if (std::strncmp(name, "tofu_multi_fetch", 16) == 0) {
    const auto kernel = reinterpret_cast<void (*)(tofu::cuda::FetchArguments)>(function);
    RunThreads(shape, [&] { kernel(*static_cast<const tofu::cuda::FetchArguments*>(argument)); });
  } else {
    const auto kernel = reinterpret_cast<void (*)(tofu::cuda::PartArguments)>(function);
    shape.threads_wait = shape.blocks_y == 1;  // sums, which are never shared by blocks
    RunThreads(shape, [&] { kernel(*static_cast<const tofu::cuda::PartArguments*>(argument)); });
  }
}

/*! \brief A part's kernel over arrays of the host, as few blocks take it; false where there is no
 * such kernel. Symbols of the program must be visible to it (-rdynamic). */
inline bool RunPartOnCpu(const tofu::cuda::PartKernel& kernel, const std::string& type,
                         tofu::cuda::PartArguments arguments) {
  const std::string name = std::string(kernel.name) + "_" + type;
  void* function = dlsym(RTLD_DEFAULT, name.c_str());
  if (function == nullptr) {
    std::printf("there is no kernel %s\n", name.c_str());
    return false;
  }
  using tofu::cuda::PartLoop;
  if (kernel.loop == PartLoop::kReduceAll) {
    arguments.extent *= arguments.outer * arguments.inner;
    arguments.outer = arguments.inner = 1;
  }
  const bool reduces = kernel.loop != PartLoop::kMapPositions && kernel.loop != PartLoop::kMapLines;
  RunKernel(name.c_str(), function,
            {reduces ? 2u : 3u, reduces ? 1u : 2u, tofu::cuda::kPartThreads}, &arguments);
  return true;
}

}  // namespace tofu_test

#endif  // TOFU_TESTS_CUDA_EMULATED_KERNELS_H_
