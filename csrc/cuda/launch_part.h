/*!
 * \file launch_part.h
 * \brief Launches the kernels of lowered operators.
 */
#ifndef TOFU_CUDA_LAUNCH_PART_H_
#define TOFU_CUDA_LAUNCH_PART_H_

#include <string>

#include "cuda/device.h"
#include "cuda/group_loops.cuh"

namespace tofu {
namespace cuda {

/*! \brief How a kernel goes over the cells; as its entry point says (TOFU_PART). */
enum class PartLoop { kReducePositions, kMapPositions, kReduceLines, kMapLines, kReduceAll };

/*! \brief A kernel of a part: "tofu_batch_norm_sum" of "batch_norm.cu", say. */
struct PartKernel {
  const char* file;
  const char* name;
  PartLoop loop;
};

/*! \brief Blocks and threads for a tensor, without a function or a stream: no blocks where it has
 * no cells. Sums are never shared by blocks: reductions have one along y. */
KernelLaunch ShapeLaunch(PartLoop loop, const PartArguments& arguments, int num_multiprocessors);

/*! \brief Issue a kernel on a stream of the GPU; does nothing for a tensor without cells. */
void LaunchPart(const PartKernel& kernel, const std::string& type, int device, StreamHandle stream,
                const PartArguments& arguments);

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_LAUNCH_PART_H_
