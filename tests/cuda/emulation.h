/*!
 * \file emulation.h
 * \brief Runs a kernel that was compiled as C++, block by block and thread by thread.
 *
 * Threads that wait for each other are fibers: each one runs until it waits, then the next one
 * does. A kernel that never waits needs none.
 */
#ifndef TOFU_TESTS_CUDA_EMULATION_H_
#define TOFU_TESTS_CUDA_EMULATION_H_

#include <functional>

namespace tofu_test {

struct LaunchShape {
  unsigned blocks = 1;
  unsigned blocks_y = 1;
  unsigned threads = 1;
  bool threads_wait = false;  // for each other: the kernel calls SyncThreads
};

/*! \brief Call `kernel` once for each thread of each block. */
void RunThreads(LaunchShape shape, const std::function<void()>& kernel);

}  // namespace tofu_test

#endif  // TOFU_TESTS_CUDA_EMULATION_H_
