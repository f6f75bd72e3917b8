/*!
 * \file peer_reads.h
 * \brief Test if a GPU reads correct bytes from another GPU's memory.
 */
#ifndef TOFU_CUDA_PEER_READS_H_
#define TOFU_CUDA_PEER_READS_H_

namespace tofu::cuda {

/*!
 * \brief Read a pattern from another GPU's memory and compare it. Each pair is tested once.
 *
 * The test is necessary because an IOMMU between GPUs can silently return wrong bytes.
 * \\throw CudaError naming the pair if the bytes differ
 */
void CheckPeerReads(int reader, int owner);

}  // namespace tofu::cuda

#endif  // TOFU_CUDA_PEER_READS_H_
