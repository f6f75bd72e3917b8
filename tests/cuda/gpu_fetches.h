/*!
 * \file gpu_fetches.h
 * \brief Fetches on a GPU against a loop over cells.
 */
#ifndef TOFU_TESTS_CUDA_GPU_FETCHES_H_
#define TOFU_TESTS_CUDA_GPU_FETCHES_H_

namespace tofu_gpu {

/*! \brief Runs all of them, prints those that are wrong; returns how many ran, and adds to
 * `failures`. */
int CheckFetches(int* failures);

}  // namespace tofu_gpu

#endif  // TOFU_TESTS_CUDA_GPU_FETCHES_H_
