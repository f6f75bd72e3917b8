/*!
 * \file launch_part.h
 * \brief Launches the kernels of lowered operators.
 */
#ifndef TOFU_CUDA_LAUNCH_PART_H_
#define TOFU_CUDA_LAUNCH_PART_H_

#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/group_loops.cuh"

namespace tofu {
namespace cuda {

/*! \brief How a kernel goes over the cells; as its entry point says (TOFU_PART). Lookups map
 * positions, and read other cells than they write; for some, indices are sorted by the rows that
 * they mean. */
enum class PartLoop {
  kReducePositions,
  kMapPositions,
  kReduceLines,
  kMapLines,
  kReduceAll,
  kLookUp,
  kLookUpSorted
};

/*! \brief A kernel of a part: "tofu_batch_norm_sum" of "batch_norm.cu", say. */
struct PartKernel {
  const char* file;
  const char* name;
  PartLoop loop;
};

/*! \brief One of the launches that compute a part. */
struct PartLaunch {
  std::string name;  // of the kernel, in the part's file
  PartArguments arguments;
  unsigned blocks;
  unsigned blocks_y;
};

/*! \brief What a part's launches keep for each other, in bytes. */
size_t ScratchBytesOf(const PartKernel& kernel, const PartArguments& arguments, int element_bytes);

/*!
 * \brief The launches of a part, in their order; none for a tensor without cells.
 *
 * How cells are shared out depends on the tensor alone where they are reduced, so that sums are the
 * same on every GPU.
 * \param scratch so many bytes as ScratchBytesOf says, on the GPU
 * \throw CudaError where there are more indices or rows than a key holds
 */
std::vector<PartLaunch> LaunchesOf(const PartKernel& kernel, const PartArguments& arguments,
                                   int element_bytes, int num_multiprocessors, void* scratch);

/*! \brief Bytes of an element for whose type parts have kernels. */
int BytesOfElement(const std::string& type);

/*! \brief Issue a part on a stream of the GPU. */
void LaunchPart(const PartKernel& kernel, const std::string& type, int device, StreamHandle stream,
                const PartArguments& arguments);

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_LAUNCH_PART_H_
