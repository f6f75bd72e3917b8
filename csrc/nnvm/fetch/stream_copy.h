/*!
 * \file stream_copy.h
 * \brief A copy that bypasses the caches.
 */
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tofu::nnvm_layer {

/*!
 * \brief memcpy with non-temporal stores, where the processor has them.
 *
 * An ordinary store first reads its cache line, and the processor prefetches beyond the end of a
 * row. So bypassing the caches is faster for data that exceeds them. Call FinishStreams before
 * another thread reads the destination.
 */
inline void StreamCopy(void* destination, const void* source, size_t bytes) {
#ifdef __SSE2__
  constexpr size_t kVector = sizeof(__m128i);
  auto* to = static_cast<char*>(destination);
  const auto* from = static_cast<const char*>(source);
  const size_t head = (kVector - reinterpret_cast<std::uintptr_t>(to) % kVector) % kVector;
  if (bytes >= head + kVector) {
    std::memcpy(to, from, head);
    size_t at = head;
    for (; at + kVector <= bytes; at += kVector) {
      const __m128i cells = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), cells);
    }
    std::memcpy(to + at, from + at, bytes - at);
    return;
  }
#endif
  std::memcpy(destination, source, bytes);
}

/*! \brief Order streamed stores before this thread's later stores. */
inline void FinishStreams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace tofu::nnvm_layer
