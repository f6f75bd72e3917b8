/*!
 * \file peer_reads.h
 * \brief Whether what a GPU reads of another one's memory is what is there.
 */
#ifndef TOFU_CUDA_PEER_READS_H_
#define TOFU_CUDA_PEER_READS_H_

namespace tofu {
namespace cuda {

/*!
 * \brief Has one GPU fetch a pattern from the memory of another one, as it will fetch tensors; asks
 * once for each pair.
 *
 * An IOMMU that translates between the two can have a read return other bytes, without an error.
 * \throw CudaError that names the pair where the bytes differ
 */
void CheckPeerReads(int reader, int owner);

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_PEER_READS_H_
