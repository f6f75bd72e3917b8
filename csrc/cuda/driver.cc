/*!
 * \file driver.cc
 */
#include "cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "core/base/text.h"

namespace tofu::cuda {
namespace {

template <typename Function>
void Find(void* library, const std::string& path, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(FindSymbol(library, path, name));
}

Driver LoadDriver() {
  const char* given = std::getenv("TOFU_CUDA_DRIVER");
  const std::string path = given != nullptr && *given != '\0' ? given : "libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw CudaError("the CUDA driver cannot be loaded (" + std::string(dlerror()) +
                    "): install NVIDIA's driver, or use CPU contexts");
  }
  Driver driver;
  // cuda.h maps names without _v2 to the following symbols.
  Find(library, path, "cuInit", &driver.cuInit);
  Find(library, path, "cuGetErrorString", &driver.cuGetErrorString);
  Find(library, path, "cuDeviceGet", &driver.cuDeviceGet);
  Find(library, path, "cuDeviceGetName", &driver.cuDeviceGetName);
  Find(library, path, "cuDeviceGetAttribute", &driver.cuDeviceGetAttribute);
  Find(library, path, "cuDeviceCanAccessPeer", &driver.cuDeviceCanAccessPeer);
  Find(library, path, "cuDevicePrimaryCtxRetain", &driver.cuDevicePrimaryCtxRetain);
  Find(library, path, "cuCtxPushCurrent_v2", &driver.cuCtxPushCurrent);
  Find(library, path, "cuCtxPopCurrent_v2", &driver.cuCtxPopCurrent);
  Find(library, path, "cuCtxEnablePeerAccess", &driver.cuCtxEnablePeerAccess);
  Find(library, path, "cuModuleLoadData", &driver.cuModuleLoadData);
  Find(library, path, "cuModuleGetFunction", &driver.cuModuleGetFunction);
  Find(library, path, "cuMemAlloc_v2", &driver.cuMemAlloc);
  Find(library, path, "cuMemFree_v2", &driver.cuMemFree);
  Find(library, path, "cuMemGetInfo_v2", &driver.cuMemGetInfo);
  Find(library, path, "cuMemcpyHtoD_v2", &driver.cuMemcpyHtoD);
  Find(library, path, "cuMemcpyDtoH_v2", &driver.cuMemcpyDtoH);
  Find(library, path, "cuStreamSynchronize", &driver.cuStreamSynchronize);
  Find(library, path, "cuMemcpyPeerAsync", &driver.cuMemcpyPeerAsync);
  Find(library, path, "cuLaunchKernel", &driver.cuLaunchKernel);
  const Status status = driver.cuInit(0);
  if (status != kSuccess) {
    throw CudaError(
        Text("the CUDA driver finds no GPU that it can use (cuInit gives ", status, ")"));
  }
  return driver;
}

}  // namespace

const Driver& GetDriver() {
  static const Driver driver = LoadDriver();
  return driver;
}

void CheckStatus(Status status, const std::string& action) {
  if (status == kSuccess) return;
  const char* text = nullptr;
  GetDriver().cuGetErrorString(status, &text);
  throw CudaError(Text(action, " failed: ", (text != nullptr ? text : "unknown reason"),
                       " (CUDA error ", status, ")"));
}

void* FindSymbol(void* library, const std::string& path, const std::string& name) {
  void* symbol = dlsym(library, name.c_str());
  if (symbol == nullptr) throw CudaError(path + " has no function " + name + ": it is too old");
  return symbol;
}

}  // namespace tofu::cuda
