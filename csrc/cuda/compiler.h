/*!
 * \file compiler.h
 * \brief Compilation of kernels for the GPU at hand by NVRTC. Results are cached on disk.
 *
 * NVRTC is loaded on first use: from TOFU_NVRTC if it is set, otherwise one that is already loaded
 * or that the loader finds. The cache is TOFU_KERNEL_CACHE, by default ~/.cache/tofu/kernels.
 */
#ifndef TOFU_CUDA_COMPILER_H_
#define TOFU_CUDA_COMPILER_H_

#include <string>
#include <utility>
#include <vector>

namespace tofu {
namespace cuda {

/*! \brief Name and text of all kernel files and headers, written by embed_sources.py. */
const std::vector<std::pair<std::string, std::string>>& KernelSources();

/*! \brief A GPU's generation: 90 for 9.0. */
using ComputeCapability = int;

/*!
 * \brief Compile a file of kernels for one element type.
 *
 * The result is machine code if NVRTC knows the generation, else PTX of the newest older one, which
 * the driver translates.
 * \\param file such as "multi_fetch.cu"
 * \\param type such as "float32"
 * \\throw CudaError if there is no NVRTC, or with its messages
 */
std::string CompileKernels(const std::string& file, const std::string& type,
                           ComputeCapability capability);

/*! \brief The same through the cache on disk. A read-only disk is no error. */
std::string GetKernels(const std::string& file, const std::string& type,
                       ComputeCapability capability);

/*! \brief The same as PTX, for people and tests. */
std::string CompileToPtx(const std::string& file, const std::string& type,
                         ComputeCapability capability);

/*! \brief NVRTC's version: 1108 for 11.8. */
int CompilerVersion();

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_COMPILER_H_
