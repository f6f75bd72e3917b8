/*!
 * \file cuda_library.cc
 * \brief Export csrc/cuda as C functions, for benchmarks/multi_fetch.py and tests without MXNet.
 *
 * Each function returns 0, or -1 after an error, whose message TofuCudaError returns.
 */
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "core/program/program.h"
#include "cuda/compiler.h"
#include "cuda/device_fetch.h"

#define TOFU_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using tofu::cuda::Device;
using tofu::cuda::DeviceFetch;
using tofu::cuda::FetchGeometry;

std::string& LastError() {
  static thread_local std::string error;
  return error;
}

/*! \brief Read the numbers of TofuFetchCreate. */
FetchGeometry ReadGeometry(const int64_t* numbers, size_t size, int element_bytes,
                           std::vector<int>* devices) {
  tofu::ProgramReader reader(numbers, size);
  FetchGeometry geometry;
  geometry.element_bytes = element_bytes;
  geometry.shape = reader.GetVector();
  geometry.inputs.resize(reader.GetCount());
  for (auto& shape : geometry.inputs) {
    devices->push_back(static_cast<int>(reader.Get()));
    shape = reader.GetVector();
  }
  geometry.pieces = reader.GetPieces();
  return geometry;
}

template <typename Action>
int Guard(const Action& action) {
  try {
    action();
    return 0;
  } catch (const std::exception& error) {
    LastError() = error.what();
    return -1;
  }
}

}  // namespace

TOFU_EXPORT const char* TofuCudaError() { return LastError().c_str(); }

/*! \brief Return the name of a GPU (up to 127 characters) and its compute capability. */
TOFU_EXPORT int TofuCudaDevice(int ordinal, char* name, int* capability) {
  return Guard([&] {
    const Device& device = Device::Get(ordinal);
    std::strncpy(name, device.name().c_str(), 127);
    *capability = device.capability();
  });
}

/*! \brief Compile a kernel file, to PTX if `as_ptx`, otherwise to machine code. The result is valid
 * until the thread's next call. */
TOFU_EXPORT int TofuCudaCompile(const char* file, const char* type, int capability, int as_ptx,
                                const char** image, size_t* bytes) {
  static thread_local std::string result;
  return Guard([&] {
    result = tofu::cuda::CompileKernels(file, type, capability, as_ptx != 0);
    *image = result.data();
    *bytes = result.size();
  });
}

/*!
 * \brief Prepare a fetch into the memory of GPU 0.
 * \\param numbers shape of the region; number of inputs, and GPU and shape of each; pieces as in an
 * encoded program. Each vector follows its length
 * \\param type the name of the element type
 */
TOFU_EXPORT int TofuFetchCreate(const int64_t* numbers, size_t size, const char* type,
                                int element_bytes, void** fetch) {
  return Guard([&] {
    std::vector<int> devices;
    const FetchGeometry geometry = ReadGeometry(numbers, size, element_bytes, &devices);
    *fetch = new DeviceFetch(geometry, type, 0, devices);
  });
}

TOFU_EXPORT int TofuFetchLaunch(void* fetch, void* output, const void* const* inputs, double fill,
                                int adds, int reducer, void* stream) {
  return Guard([&] {
    auto* prepared = static_cast<DeviceFetch*>(fetch);
    tofu::cuda::FetchCall call;
    call.output = output;
    call.inputs.assign(inputs, inputs + prepared->input_devices().size());
    call.fill = fill;
    call.adds = adds != 0;
    call.reducer = static_cast<tofu::Reducer>(reducer);
    call.stream = stream;
    prepared->Launch(call);
  });
}

TOFU_EXPORT void TofuFetchFree(void* fetch) { delete static_cast<DeviceFetch*>(fetch); }
