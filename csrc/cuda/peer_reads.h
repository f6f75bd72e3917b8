/*!
 * \file peer_reads.h
 * \brief Test if a GPU reads correct bytes from another GPU's memory.
 */
#pragma once

namespace tofu::cuda {

/*!
 * \brief Read a pattern from another GPU's memory and compare it. Each pair is tested once.
 *
 * The test is necessary because an IOMMU between GPUs can silently return wrong bytes.
 * \\throw CudaError naming the pair if the bytes differ
 */
void CheckPeerReads(int reader, int owner);

}  // namespace tofu::cuda
