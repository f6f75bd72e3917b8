/*!
 * \file emulated_driver.cc
 * \brief A CUDA driver and NVRTC for machines without a GPU: device memory is host memory, and a
 * launch calls the kernel's C++ function thread by thread.
 *
 * TOFU_CUDA_DRIVER and TOFU_NVRTC name this library. Settings:
 *
 *     EMULATED_CAPABILITY    compute capability of the GPUs, 80 by default
 *     EMULATED_NO_PEERS      pairs without access, "0-1,2-3"
 *     EMULATED_SPOILT_READS  a reader and an owner whose memory it reads wrongly, "1-0"
 *     EMULATED_FREE_BYTES    free memory of each GPU
 *     EMULATED_COPY_MARK     bits to flip in each byte that is copied between GPUs
 *
 * It is as strict as a GPU: copies from the host arrive when a stream is synchronized, and launches
 * beyond the limits of GPUs, and copies of two streams to one place, are refused.
 */
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "emulated_kernels.h"
#include "emulation.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Address = unsigned long long;  // NOLINT(runtime/int)

constexpr int kNumGpus = 16;
constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr int kNotFound = 500;
constexpr unsigned kMostBlocks = 0x7fffffffu;
constexpr unsigned kMostBlocksY = 65535;
constexpr unsigned kMostThreads = 1024;
constexpr int kAlreadyEnabled = 704;

std::string Setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

int Capability() { return std::atoi(Setting("EMULATED_CAPABILITY", "80").c_str()); }

bool HasPeerAccess(int reader, int owner) {
  const auto pair = [](int a, int b) { return std::to_string(a) + "-" + std::to_string(b) + ","; };
  const std::string without = Setting("EMULATED_NO_PEERS", "") + ",";
  return without.find(pair(reader, owner)) == std::string::npos &&
         without.find(pair(owner, reader)) == std::string::npos;
}

void* ContextOf(int gpu) { return reinterpret_cast<void*>(static_cast<uintptr_t>(gpu + 1)); }

thread_local int g_depth = 0;  // of the stack of contexts
bool g_enabled[kNumGpus][kNumGpus] = {};
thread_local int g_current[64];
std::mutex g_mutex;  // one launch at a time: emulated shared memory exists once

/*! \brief A pending copy from the host. */
struct Upload {
  void* to;
  std::vector<char> bytes;
};
std::vector<Upload> g_uploads;

/*! \brief Memory of a GPU. */
struct Allocated {
  size_t bytes;
  int gpu;
};
std::map<Address, Allocated> g_allocated;

/*! \brief Inverts the memory that a GPU reads wrongly, as with an IOMMU; a second call restores it.
 */
void SpoilFor(int reader) {
  const std::string pairs = Setting("EMULATED_SPOILT_READS", "") + ",";
  for (const auto& [address, memory] : g_allocated) {
    const std::string pair = std::to_string(reader) + "-" + std::to_string(memory.gpu) + ",";
    if (pairs.find(pair) == std::string::npos) continue;
    char* begin = reinterpret_cast<char*>(address);
    std::transform(begin, begin + memory.bytes, begin,
                   [](char byte) { return static_cast<char>(~byte); });
  }
}

// Targets of copies, by stream: another stream's copy to the same place would not wait.
std::map<Address, void*> g_copying;

}  // namespace

EXPORT int cuInit(unsigned) { return 0; }

EXPORT int cuGetErrorString(int status, const char** text) {
  *text = status == kAlreadyEnabled ? "peer access is already enabled" : "an emulated error";
  return 0;
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < kNumGpus ? 0 : 101;
}

EXPORT int cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "Emulated GPU", static_cast<size_t>(length));
  return 0;
}

EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? Capability() / 10 : attribute == 76 ? Capability() % 10 : 2;
  return 0;
}

EXPORT int cuDeviceCanAccessPeer(int* can, int reader, int owner) {
  *can = HasPeerAccess(reader, owner) ? 1 : 0;
  return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = ContextOf(device);
  return 0;
}

EXPORT int cuCtxPushCurrent_v2(void* context) {
  if (g_depth == 64) return kInvalidContext;
  g_current[g_depth++] = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
  return 0;
}

EXPORT int cuCtxPopCurrent_v2(void** context) {
  if (g_depth == 0) return kInvalidContext;
  *context = ContextOf(g_current[--g_depth]);
  return 0;
}

EXPORT int cuCtxEnablePeerAccess(void* owner, unsigned) {
  if (g_depth == 0) return kInvalidContext;
  const std::lock_guard<std::mutex> lock(g_mutex);
  bool& enabled =
      g_enabled[g_current[g_depth - 1]][static_cast<int>(reinterpret_cast<uintptr_t>(owner)) - 1];
  if (enabled) return kAlreadyEnabled;
  enabled = true;
  return 0;
}

EXPORT int cuModuleLoadData(void** module, const void* image) {
  *module = const_cast<void*>(image);
  return g_depth == 0 ? kInvalidContext : 0;
}

EXPORT int cuModuleGetFunction(void** function, void*, const char* name) {
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&cuInit), &library) == 0) return kNotFound;
  *function = dlsym(dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
  return *function != nullptr ? 0 : kNotFound;
}

EXPORT int cuMemAlloc_v2(Address* address, size_t bytes) {
  if (g_depth == 0 || bytes == 0) return kInvalidValue;
  void* memory = nullptr;  // of exactly so many bytes: the sanitizer finds reads behind them
  if (posix_memalign(&memory, 256, bytes) != 0) return kInvalidValue;
  *address = reinterpret_cast<Address>(memory);
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_allocated[*address] = {bytes, g_current[g_depth - 1]};
  return 0;
}

EXPORT int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *total = size_t{16} << 30;
  *free = std::strtoull(Setting("EMULATED_FREE_BYTES", "17179869184").c_str(), nullptr, 10);
  return g_depth == 0 ? kInvalidContext : 0;
}

EXPORT int cuMemFree_v2(Address address) {
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    g_allocated.erase(address);
    g_copying.erase(address);
  }
  std::free(reinterpret_cast<void*>(address));
  return 0;
}

EXPORT int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const char* begin = static_cast<const char*>(from);
  g_uploads.push_back({reinterpret_cast<void*>(to), {begin, begin + bytes}});
  return g_depth == 0 ? kInvalidContext : 0;
}

EXPORT int cuStreamSynchronize(void*) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (const Upload& upload : g_uploads) {
    std::memcpy(upload.to, upload.bytes.data(), upload.bytes.size());
  }
  g_uploads.clear();
  return 0;
}

EXPORT int cuMemcpyPeerAsync(Address to, void*, Address from, void*, size_t bytes, void* stream) {
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    if (g_copying.emplace(to, stream).first->second != stream) return kInvalidValue;
  }
  const char mark = static_cast<char>(std::atoi(Setting("EMULATED_COPY_MARK", "0").c_str()));
  const char* begin = reinterpret_cast<const char*>(from);
  std::transform(begin, begin + bytes, reinterpret_cast<char*>(to),
                 [mark](char byte) { return static_cast<char>(byte ^ mark); });
  return 0;
}

EXPORT int cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return g_depth == 0 ? kInvalidContext : 0;
}

EXPORT int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void*) {
  return cuMemcpyDtoH_v2(reinterpret_cast<void*>(to), from, bytes);
}

// Events are the times at which they were recorded.

EXPORT int cuEventCreate(void** event, unsigned) {
  *event = new std::chrono::steady_clock::time_point();
  return 0;
}

EXPORT int cuEventRecord(void* event, void*) {
  *static_cast<std::chrono::steady_clock::time_point*>(event) = std::chrono::steady_clock::now();
  return 0;
}

EXPORT int cuEventSynchronize(void*) { return 0; }

EXPORT int cuEventDestroy_v2(void* event) {
  delete static_cast<std::chrono::steady_clock::time_point*>(event);
  return 0;
}

EXPORT int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  using Time = std::chrono::steady_clock::time_point;
  const std::chrono::duration<float, std::milli> between =
      *static_cast<Time*>(to) - *static_cast<Time*>(from);
  *milliseconds = between.count();
  return 0;
}

EXPORT int cuLaunchKernel(void* function, unsigned blocks, unsigned blocks_y, unsigned,
                          unsigned threads, unsigned, unsigned, unsigned, void*, void** arguments,
                          void**) {
  if (g_depth == 0) return kInvalidContext;
  if (blocks == 0 || blocks > kMostBlocks || blocks_y == 0 || blocks_y > kMostBlocksY ||
      threads == 0 || threads > kMostThreads) {
    return kInvalidValue;
  }
  const std::lock_guard<std::mutex> lock(g_mutex);
  Dl_info kernel;
  if (dladdr(function, &kernel) == 0 || kernel.dli_sname == nullptr) return kNotFound;
  SpoilFor(g_current[g_depth - 1]);
  tofu_test::RunKernel(kernel.dli_sname, function, {blocks, blocks_y, threads}, arguments[0]);
  SpoilFor(g_current[g_depth - 1]);
  return 0;
}

// NVRTC: compiled programs are their options.

namespace {
struct Program {
  std::string options;
};
}  // namespace

EXPORT int nvrtcVersion(int* major, int* minor) {
  *major = 0;
  *minor = 1;
  return 0;
}
EXPORT const char* nvrtcGetErrorString(int) { return "an emulated error"; }
EXPORT int nvrtcGetNumSupportedArchs(int* count) {
  *count = 5;
  return 0;
}
EXPORT int nvrtcGetSupportedArchs(int* capabilities) {
  int* next = capabilities;
  for (int capability : {50, 60, 70, 80, 90}) *next++ = capability;
  return 0;
}
EXPORT int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*,
                              const char* const*) {
  *program = new Program();
  return 0;
}
EXPORT int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  return 0;
}
EXPORT int nvrtcCompileProgram(void* program, int num_options, const char* const* options) {
  for (int i = 0; i < num_options; ++i) {
    static_cast<Program*>(program)->options += std::string(options[i]) + " ";
  }
  return 0;
}
EXPORT int nvrtcGetProgramLogSize(void*, size_t* bytes) {
  *bytes = 0;
  return 0;
}
EXPORT int nvrtcGetProgramLog(void*, char*) { return 0; }
EXPORT int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->options.size();
  return 0;
}
EXPORT int nvrtcGetCUBIN(void* program, char* image) {
  const std::string& options = static_cast<Program*>(program)->options;
  std::copy(options.begin(), options.end(), image);
  return 0;
}
EXPORT int nvrtcGetPTXSize(void* program, size_t* bytes) {
  return nvrtcGetCUBINSize(program, bytes);
}
EXPORT int nvrtcGetPTX(void* program, char* image) { return nvrtcGetCUBIN(program, image); }
