/*!
 * \file portable.cuh
 * \brief Definitions with which kernels compile both by NVRTC for a GPU and by a C++ compiler for
 * tests, which run them thread by thread.
 *
 * Kernels include no headers of CUDA or the standard library, which NVRTC lacks.
 */
#pragma once

namespace tofu::cuda {

/*! \brief Sizes and offsets: int64_t, which NVRTC does not know. */
typedef long long Index;  // NOLINT(runtime/int)

constexpr int kWarpThreads = 32;  // that run together

}  // namespace tofu::cuda

#ifdef __CUDACC__

#define TOFU_DEVICE __device__ __forceinline__
#define TOFU_SHARED __shared__
#define TOFU_UNROLL _Pragma("unroll")
#define TOFU_ROLLED _Pragma("unroll 1")
/*! \brief An entry point for blocks of at most `threads` threads. */
#define TOFU_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)

namespace tofu::cuda {

typedef uint2 Words2;
typedef uint4 Words4;

TOFU_DEVICE unsigned ThreadIndex() { return threadIdx.x; }
TOFU_DEVICE unsigned BlockThreads() { return blockDim.x; }
TOFU_DEVICE unsigned BlockIndex(int dimension) { return dimension == 0 ? blockIdx.x : blockIdx.y; }
TOFU_DEVICE unsigned NumBlocks(int dimension) { return dimension == 0 ? gridDim.x : gridDim.y; }
TOFU_DEVICE void SyncThreads() { __syncthreads(); }
/*! \brief Wait for the threads that share this thread's groups. */
TOFU_DEVICE void SyncLanes(bool are_within_warp) {
  if (are_within_warp) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}
TOFU_DEVICE unsigned MultiplyHigh(unsigned a, unsigned b) { return __umulhi(a, b); }
TOFU_DEVICE void CopyBytes(void* to, const void* from, unsigned bytes) { memcpy(to, from, bytes); }
/*! \brief 2^power to 22 bits, in one instruction; `exp` takes ten. */
TOFU_DEVICE float RoughPowerOfTwo(float power) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(power));
  return result;
}
TOFU_DEVICE Words4 ReadWords(const void* from) { return *static_cast<const Words4*>(from); }
/*! \brief Write 16 bytes by one instruction. Otherwise the compiler splits words that were computed
 * one by one. */
TOFU_DEVICE void WriteWords(void* to, const Words4& words) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

}  // namespace tofu::cuda

#else

#include <math.h>  // has float overloads outside of std, unlike <cmath>

#include <cstdlib>
#include <cstring>

#define TOFU_DEVICE inline
#define TOFU_SHARED static
#define TOFU_UNROLL
#define TOFU_ROLLED
#define TOFU_KERNEL(threads) extern "C" void

namespace tofu::cuda {

/*! \brief 8 and 16 bytes that a thread accesses at once. */
struct alignas(8) Words2 {
  unsigned words[2];
};
struct alignas(16) Words4 {
  unsigned words[4];
};

/*! \brief The emulated thread that is running. */
struct EmulatedThread {
  unsigned thread = 0;
  unsigned block_threads = 1;
  unsigned block[2] = {0, 0};
  unsigned num_blocks[2] = {1, 1};
  void (*sync)() = nullptr;
};
inline thread_local EmulatedThread g_emulated;

inline unsigned ThreadIndex() { return g_emulated.thread; }
inline unsigned BlockThreads() { return g_emulated.block_threads; }
inline unsigned BlockIndex(int dimension) { return g_emulated.block[dimension]; }
inline unsigned NumBlocks(int dimension) { return g_emulated.num_blocks[dimension]; }
inline void SyncThreads() { g_emulated.sync(); }
inline void SyncLanes(bool) { g_emulated.sync(); }
inline unsigned MultiplyHigh(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);  // NOLINT
}
inline void CopyBytes(void* to, const void* from, unsigned bytes) { std::memcpy(to, from, bytes); }
inline float RoughPowerOfTwo(float power) { return exp2(power); }
/*! \brief Abort, as a GPU does, if 16 bytes are not aligned. */
inline void CheckAlignment(const void* address) {
  if (reinterpret_cast<unsigned long long>(address) % sizeof(Words4) != 0) std::abort();  // NOLINT
}
inline Words4 ReadWords(const void* from) {
  CheckAlignment(from);
  Words4 words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}
inline void WriteWords(void* to, const Words4& words) {
  CheckAlignment(to);
  std::memcpy(to, &words, sizeof(words));
}

}  // namespace tofu::cuda

#endif  // __CUDACC__
