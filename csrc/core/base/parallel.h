/*!
 * \file parallel.h
 * \brief A loop over all cores.
 */
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tofu {

/*! \brief The most threads of one loop. */
constexpr size_t kMaxThreads = 8;

/*! \brief Return the number of threads. The system is asked only once, because it reads a file. */
inline size_t CountThreads() {
  static const size_t count =
      std::min(kMaxThreads, size_t{std::max(1u, std::thread::hardware_concurrency())});
  return count;
}

/*!
 * \brief Call work(begin, end) for ranges of at most `grain` of 0..count, in any order, on several
 * threads.
 *
 * The calling thread takes part. A single range starts no thread. After all threads have ended, the
 * first exception from `work` is rethrown.
 */
template <typename Work>
void ParallelFor(size_t count, size_t grain, const Work& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto run = [&] {
    try {
      for (size_t begin = next.fetch_add(grain); begin < count; begin = next.fetch_add(grain))
        work(begin, std::min(begin + grain, count));
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
      next = count;
    }
  };
  const size_t pieces = (count + grain - 1) / grain;
  const size_t threads = std::min(pieces, CountThreads());
  std::vector<std::thread> helpers;
  helpers.reserve(threads);
  try {
    for (size_t t = 1; t < threads; ++t) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // No more threads are available, so the threads that have started do all of the work.
  }
  run();
  for (std::thread& helper : helpers) helper.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace tofu
