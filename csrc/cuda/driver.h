/*!
 * \file driver.h
 * \brief Call the CUDA driver, which is loaded on first use.
 *
 * Tofu can be built and imported without CUDA, because functions are looked up in libcuda.so.1 of
 * the machine's driver. Tests without a GPU set TOFU_CUDA_DRIVER to another library.
 */
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace tofu::cuda {

/*! \brief An error of the driver or of NVRTC, which may be missing. */
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// These types are named as in cuda.h.
using Status = int;
using DeviceHandle = int;
using ContextHandle = void*;
using ModuleHandle = void*;
using FunctionHandle = void*;
using StreamHandle = void*;
using Address = unsigned long long;  // NOLINT(runtime/int)

constexpr Status kSuccess = 0;
constexpr Status kPeerAccessAlreadyEnabled = 704;
constexpr Status kTooManyPeers = 711;
constexpr int kAttributeMultiprocessors = 16;
constexpr int kAttributeMajor = 75;
constexpr int kAttributeMinor = 76;

/*! \brief The functions of the driver that Tofu uses, named as in cuda.h. */
struct Driver {
  Status (*cuInit)(unsigned flags);
  Status (*cuGetErrorString)(Status status, const char** text);
  Status (*cuDeviceGet)(DeviceHandle* device, int ordinal);
  Status (*cuDeviceGetName)(char* name, int length, DeviceHandle device);
  Status (*cuDeviceGetAttribute)(int* value, int attribute, DeviceHandle device);
  Status (*cuDeviceCanAccessPeer)(int* can, DeviceHandle reader, DeviceHandle owner);
  Status (*cuDevicePrimaryCtxRetain)(ContextHandle* context, DeviceHandle device);
  Status (*cuCtxPushCurrent)(ContextHandle context);
  Status (*cuCtxPopCurrent)(ContextHandle* context);
  Status (*cuCtxEnablePeerAccess)(ContextHandle owner, unsigned flags);
  Status (*cuModuleLoadData)(ModuleHandle* module, const void* image);
  Status (*cuModuleGetFunction)(FunctionHandle* function, ModuleHandle module, const char* name);
  Status (*cuMemAlloc)(Address* address, size_t bytes);
  Status (*cuMemFree)(Address address);
  Status (*cuMemGetInfo)(size_t* free, size_t* total);
  Status (*cuMemcpyHtoD)(Address to, const void* from, size_t bytes);
  Status (*cuMemcpyDtoH)(void* to, Address from, size_t bytes);
  Status (*cuStreamSynchronize)(StreamHandle stream);
  Status (*cuMemcpyPeerAsync)(Address to, ContextHandle to_context, Address from,
                              ContextHandle from_context, size_t bytes, StreamHandle stream);
  Status (*cuLaunchKernel)(FunctionHandle function, unsigned blocks_x, unsigned blocks_y,
                           unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                           unsigned threads_z, unsigned shared_bytes, StreamHandle stream,
                           void** arguments, void** extra);
};

/*!
 * \brief Return the initialised driver.
 * \\throw CudaError if there is none
 */
const Driver& GetDriver();

/*! \brief Check the status of a call. \throw CudaError with the action if the call failed */
void CheckStatus(Status status, const std::string& action);

/*! \brief Return a function of an open library. \throw CudaError if it is missing */
void* FindSymbol(void* library, const std::string& path, const std::string& name);

}  // namespace tofu::cuda
