/*!
 * \file gpu_arrays.h
 * \brief Arrays of any element type on a GPU, and times on a stream.
 *
 * Needs only the driver. The emulated driver runs the same code on host memory.
 */
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/driver.h"
#include "cuda/numbers.cuh"

namespace tofu_gpu {

using tofu::cuda::Address;
using tofu::cuda::Device;
using tofu::cuda::DeviceMemory;

/*! \brief Functions of the driver that only the tests need, named as in cuda.h. */
struct TestDriver {
  int (*cuMemcpyDtoH)(void* to, Address from, size_t bytes);
  int (*cuMemcpyDtoDAsync)(Address to, Address from, size_t bytes, void* stream);
  int (*cuEventCreate)(void** event, unsigned flags);
  int (*cuEventRecord)(void* event, void* stream);
  int (*cuEventSynchronize)(void* event);
  int (*cuEventElapsedTime)(float* milliseconds, void* from, void* to);
  int (*cuEventDestroy)(void* event);

  static const TestDriver& Get() {
    static const TestDriver driver = Load();
    return driver;
  }

 private:
  static TestDriver Load() {
    const char* given = std::getenv("TOFU_CUDA_DRIVER");
    const std::string path = given != nullptr ? given : "libcuda.so.1";
    void* library = dlopen(path.c_str(), RTLD_NOW);
    TestDriver driver;
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(
          tofu::cuda::FindSymbol(library, path, name));
    };
    find("cuMemcpyDtoH_v2", &driver.cuMemcpyDtoH);
    find("cuMemcpyDtoDAsync_v2", &driver.cuMemcpyDtoDAsync);
    find("cuEventCreate", &driver.cuEventCreate);
    find("cuEventRecord", &driver.cuEventRecord);
    find("cuEventSynchronize", &driver.cuEventSynchronize);
    find("cuEventElapsedTime", &driver.cuEventElapsedTime);
    find("cuEventDestroy_v2", &driver.cuEventDestroy);
    return driver;
  }
};

inline int BytesOf(const std::string& type) {
  if (type == "float64" || type == "int64") return 8;
  if (type == "float32" || type == "int32") return 4;
  return type == "float16" || type == "bfloat16" ? 2 : 1;
}

/*! \brief Calls `use` with a value of the C++ type of this name. */
template <typename Use>
auto WithType(const std::string& type, Use use) {
  using namespace tofu::cuda;  // NOLINT(build/namespaces)
  if (type == "float32") return use(Element_float32());
  if (type == "float64") return use(Element_float64());
  if (type == "float16") return use(Element_float16());
  if (type == "bfloat16") return use(Element_bfloat16());
  if (type == "uint8") return use(Element_uint8());
  if (type == "int8") return use(Element_int8());
  if (type == "int32") return use(Element_int32());
  if (type == "int64") return use(Element_int64());
  return use(Element_bool());
}

/*! \brief Elements of one type in the host's memory, as numbers. */
struct HostArray {
  struct Size {
    std::string type;
    size_t cells;
    size_t bytes() const { return cells * static_cast<size_t>(BytesOf(type)); }
  };
  explicit HostArray(const Size& size) : type(size.type), bytes(size.bytes()) {}

  size_t cells() const { return bytes.size() / BytesOf(type); }
  double Get(size_t i) const {
    return WithType(type, [&](auto element) {
      std::memcpy(&element, &bytes[i * sizeof(element)], sizeof(element));
      typedef typename tofu::cuda::SumType<decltype(element)>::type Sum;
      return static_cast<double>(static_cast<Sum>(element));
    });
  }
  void Put(size_t i, double value) {
    WithType(type, [&](auto element) {
      typedef typename tofu::cuda::SumType<decltype(element)>::type Sum;
      element = static_cast<decltype(element)>(static_cast<Sum>(value));
      std::memcpy(&bytes[i * sizeof(element)], &element, sizeof(element));
      return 0;
    });
  }

  std::string type;
  std::vector<char> bytes;
};

inline void ReadBack(const DeviceMemory& memory, HostArray* array) {
  const tofu::cuda::ContextScope scope(Device::Get(0));
  tofu::cuda::CheckStatus(tofu::cuda::GetDriver().cuStreamSynchronize(nullptr), "running a kernel");
  if (array->bytes.empty()) return;
  tofu::cuda::CheckStatus(
      TestDriver::Get().cuMemcpyDtoH(array->bytes.data(), memory.address(), array->bytes.size()),
      "reading back");
}

/*! \brief The median time of `action` on the default stream in seconds, after a few warm-up runs.
 */
inline double MedianSeconds(int runs, const std::function<void()>& action) {
  constexpr int kWarmUps = 3;
  const TestDriver& driver = TestDriver::Get();
  const tofu::cuda::ContextScope scope(Device::Get(0));
  const auto check = [](int status) { tofu::cuda::CheckStatus(status, "taking the time"); };
  void* begin = nullptr;
  void* end = nullptr;
  check(driver.cuEventCreate(&begin, 0));
  check(driver.cuEventCreate(&end, 0));
  std::vector<float> times;
  for (int run = -kWarmUps; run < runs; ++run) {
    check(driver.cuEventRecord(begin, nullptr));
    action();
    check(driver.cuEventRecord(end, nullptr));
    check(driver.cuEventSynchronize(end));
    float milliseconds = 0;
    check(driver.cuEventElapsedTime(&milliseconds, begin, end));
    if (run >= 0) times.push_back(milliseconds);
  }
  check(driver.cuEventDestroy(begin));
  check(driver.cuEventDestroy(end));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] / 1e3;
}

/*! \brief Copies within the GPU, on the default stream. */
inline void CopyWithin(Address to, Address from, size_t bytes) {
  const tofu::cuda::ContextScope scope(Device::Get(0));
  tofu::cuda::CheckStatus(TestDriver::Get().cuMemcpyDtoDAsync(to, from, bytes, nullptr),
                          "copying within the GPU");
}

/*! \brief Memory filled with repetitions of an array. */
inline DeviceMemory Repeat(const HostArray& drawn, size_t bytes) {
  DeviceMemory memory(Device::Get(0), bytes);
  const DeviceMemory source(Device::Get(0), drawn.bytes.data(), drawn.bytes.size());
  for (size_t at = 0; at < bytes; at += drawn.bytes.size()) {
    CopyWithin(memory.address() + at, source.address(), std::min(drawn.bytes.size(), bytes - at));
  }
  return memory;
}

/*! \brief Memory filled with different floats. */
inline DeviceMemory Filled(size_t bytes) {
  HostArray drawn({"float32", 1 << 20});
  for (size_t i = 0; i < drawn.cells(); ++i) drawn.Put(i, static_cast<double>(i % 1009));
  return Repeat(drawn, bytes);
}

/*! \brief Seconds of a copy of so many bytes within the GPU. */
inline double SecondsOfCopy(size_t bytes, int runs) {
  const DeviceMemory from = Filled(bytes);
  const DeviceMemory to(Device::Get(0), bytes);
  return MedianSeconds(runs, [&] { CopyWithin(to.address(), from.address(), bytes); });
}

}  // namespace tofu_gpu
