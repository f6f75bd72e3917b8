/*!
 * \file compiler.h
 * \brief Compile kernels for this machine's GPU with NVIDIA's NVRTC, and cache the results.
 *
 * NVRTC is loaded on first use: from TOFU_NVRTC if that is set, otherwise the library that is
 * already loaded or that the loader finds. The cache is the folder TOFU_KERNEL_CACHE, by default
 * ~/.cache/tofu/kernels.
 */
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tofu::cuda {

/*! \brief Name and text of all kernel files and headers, written by embed_sources.py. */
const std::vector<std::pair<std::string, std::string>>& KernelSources();

/*! \brief The generation of a GPU: 90 for compute capability 9.0. */
using ComputeCapability = int;

/*!
 * \brief Compile a file of kernels for one element type.
 *
 * The result is machine code if NVRTC knows the GPU's generation. Otherwise it is PTX for the
 * newest older generation, which the driver translates.
 * \\param file such as "multi_fetch.cu"
 * \\param type such as "float32"
 * \\param as_ptx return PTX for this generation, for people and tests
 * \\throw CudaError if NVRTC is missing, or with its messages if it fails
 */
std::string CompileKernels(const std::string& file, const std::string& type,
                           ComputeCapability capability, bool as_ptx = false);

/*! \brief Compile kernels, or read them from the cache on disk. A read-only disk is no error. */
std::string GetKernels(const std::string& file, const std::string& type,
                       ComputeCapability capability);

/*! \brief NVRTC's version: 1108 for 11.8. */
int CompilerVersion();

}  // namespace tofu::cuda
