/*!
 * \file emulated_kernels.h
 * \brief Every kernel of csrc/cuda, compiled as C++ for every element type, under its own name.
 */
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/fetch_table.cuh"
#include "cuda/group_loops.cuh"
#include "cuda/launch_part.h"
#include "emulation.h"

#define TOFU_TYPE float32
#include "cuda/multi_fetch.cu"
#include "emulated_parts.h"
#undef TOFU_TYPE
#define TOFU_TYPE float64
#include "cuda/multi_fetch.cu"
#include "emulated_parts.h"
#undef TOFU_TYPE
#define TOFU_TYPE float16
#include "cuda/multi_fetch.cu"
#include "emulated_parts.h"
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
    const auto& part = *static_cast<const tofu::cuda::PartArguments*>(argument);
    shape.threads_wait = part.layout.waits != 0;
    RunThreads(shape, [&] { kernel(part); });
  }
}

/*! \brief A part over arrays of the host; false where there is no such kernel. Symbols of the
 * program must be visible to it (-rdynamic). */
inline bool RunPartOnCpu(const tofu::cuda::PartKernel& kernel, const std::string& type,
                         const tofu::cuda::PartArguments& arguments) {
  constexpr int kMultiprocessors = 2;
  const int bytes = tofu::cuda::BytesOfElement(type);
  std::vector<char> scratch(ScratchBytesOf(kernel, arguments, bytes));
  for (const auto& launch :
       LaunchesOf(kernel, arguments, bytes, kMultiprocessors, scratch.data())) {
    const std::string name = launch.name + "_" + type;
    void* function = dlsym(RTLD_DEFAULT, name.c_str());
    if (function == nullptr) {
      std::printf("there is no kernel %s\n", name.c_str());
      return false;
    }
    RunKernel(name.c_str(), function, {launch.blocks, launch.blocks_y, tofu::cuda::kPartThreads},
              &launch.arguments);
  }
  return true;
}

}  // namespace tofu_test
