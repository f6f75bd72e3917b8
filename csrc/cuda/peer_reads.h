/*!
 * \file peer_reads.h
 * \brief A test of reads from another GPU's memory.
 */
#ifndef TOFU_CUDA_PEER_READS_H_
#define TOFU_CUDA_PEER_READS_H_

namespace tofu {
namespace cuda {

/*!
 * \brief Fetch a pattern from another GPU's memory and compare it, once per pair.
 *
 * An IOMMU between GPUs can silently return wrong bytes.
 * \\throw CudaError naming the pair if the bytes differ
 */
void CheckPeerReads(int reader, int owner);

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_PEER_READS_H_
