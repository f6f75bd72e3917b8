/*!
 * \file compiler.h
 * \brief Kernels are compiled for the GPU that is there, by NVRTC, once: the result is kept on
 * disk.
 *
 * NVRTC is found when it is first needed: TOFU_NVRTC, where it is set, or the library that is
 * loaded already or that the loader finds. Results are kept in TOFU_KERNEL_CACHE, by default
 * ~/.cache/tofu/kernels.
 */
#ifndef TOFU_CUDA_COMPILER_H_
#define TOFU_CUDA_COMPILER_H_

#include <string>
#include <utility>
#include <vector>

namespace tofu {
namespace cuda {

/*! \brief Name and text of every kernel file and header; written while building
 * (embed_sources.py). */
const std::vector<std::pair<std::string, std::string>>& KernelSources();

/*! \brief A GPU's generation: 9.0 is 90. */
using ComputeCapability = int;

/*!
 * \brief A file of kernels for one element type, as an image that the driver loads.
 *
 * Machine code where NVRTC knows the generation; else PTX of the newest one that it knows, which
 * the driver translates.
 * \param file "multi_fetch.cu", say
 * \param type "float32", say
 * \throw CudaError where there is no NVRTC, or with its messages
 */
std::string CompileKernels(const std::string& file, const std::string& type,
                           ComputeCapability capability);

/*! \brief The same, from the disk where it was compiled before. A disk that cannot be written to is
 * no error. */
std::string GetKernels(const std::string& file, const std::string& type,
                       ComputeCapability capability);

/*! \brief The same as PTX, for people and tests. */
std::string CompileToPtx(const std::string& file, const std::string& type,
                         ComputeCapability capability);

/*! \brief NVRTC's version, 11.8 as 1108. */
int CompilerVersion();

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_COMPILER_H_
