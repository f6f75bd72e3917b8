/*!
 * \file gpu_fetches.h
 * \brief Fetches on a GPU against a loop over cells.
 */
#ifndef TOFU_TESTS_CUDA_GPU_FETCHES_H_
#define TOFU_TESTS_CUDA_GPU_FETCHES_H_

#include <cstddef>

namespace tofu_gpu {

/*! \brief Runs all of them, prints those that are wrong; returns how many ran, and adds to
 * `failures`. */
int CheckFetches(int* failures);

/*! \brief Bandwidths of regions of so many bytes, a JSON object in each line.
 * \param copy bytes read and written in a second by a copy within the GPU */
void MeasureFetches(size_t bytes, int runs, double copy);

}  // namespace tofu_gpu

#endif  // TOFU_TESTS_CUDA_GPU_FETCHES_H_
