/*!
 * \file launch_part.h
 * \brief Launch the kernels of lowered operators. Each part of a lowered operator has kernels.
 */
#pragma once

#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/group_loops.cuh"

namespace tofu::cuda {

/*! \brief How a kernel loops over elements, as in its entry point (TOFU_PART). A lookup reads other
 * positions than it writes. Some lookups need indices that are sorted by row. */
enum class PartLoop {
  kReducePositions,
  kMapPositions,
  kReduceLines,
  kMapLines,
  kReduceAll,
  kLookUp,
  kLookUpSorted
};

/*! \brief The kernel of a part, such as "tofu_batch_norm_sum" in "batch_norm.cu". */
struct PartKernel {
  const char* file;
  const char* name;
  PartLoop loop;
};

/*! \brief A launch of one kernel of a part. */
struct PartLaunch {
  std::string name;  // of the kernel in the part's file
  PartArguments arguments;
  unsigned blocks;
  unsigned blocks_y;
};

/*! \brief Return the bytes of temporary memory that the launches of a part share. */
size_t ScratchBytesOf(const PartKernel& kernel, const PartArguments& arguments, int element_bytes);

/*!
 * \brief Return the launches of a part in order; none for a tensor without elements.
 *
 * The order of additions depends only on the tensor, so sums are the same on every GPU.
 * \\param scratch memory on the GPU with the bytes of ScratchBytesOf
 * \\throw CudaError if there are more indices or rows than a key can hold
 */
std::vector<PartLaunch> LaunchesOf(const PartKernel& kernel, const PartArguments& arguments,
                                   int element_bytes, int num_multiprocessors, void* scratch);

/*! \brief Return the bytes of an element of a type for which parts have kernels. */
int BytesOfElement(const std::string& type);

void LaunchPart(const PartKernel& kernel, const std::string& type, int device, StreamHandle stream,
                const PartArguments& arguments);

}  // namespace tofu::cuda
