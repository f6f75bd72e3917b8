/*!
 * \file emulation.h
 * \brief Run a kernel compiled as C++, block by block and thread by thread.
 *
 * Threads that wait for each other are fibers: each runs until it waits, then the next one runs. A
 * kernel that never waits needs no fibers.
 */
#pragma once

#include <functional>

namespace tofu_test {

struct LaunchShape {
  unsigned blocks = 1;
  unsigned blocks_y = 1;
  unsigned threads = 1;
  bool threads_wait = false;  // the kernel calls SyncThreads
};

/*! \brief Call `kernel` once for each thread of each block. */
void RunThreads(LaunchShape shape, const std::function<void()>& kernel);

}  // namespace tofu_test
