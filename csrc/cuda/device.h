/*!
 * \file device.h
 * \brief A GPU: its context, memory, kernels, and peers.
 *
 * Tofu uses the GPU's primary context, as MXNet and CuPy do, so that they share addresses and
 * streams.
 */
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "cuda/compiler.h"
#include "cuda/driver.h"

namespace tofu::cuda {

class Device;

/*! \brief A block of a GPU's memory, freed by the destructor. */
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const Device& device, size_t bytes);
  DeviceMemory(const Device& device, const void* from, size_t bytes);
  /*! \brief Copy the first bytes to the host, after all work on the default stream. */
  void CopyTo(void* to, size_t bytes) const;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  Address address() const { return address_; }

 private:
  const Device* device_ = nullptr;
  Address address_ = 0;
};

/*! \brief A GPU. All its functions are thread-safe. */
class Device {
 public:
  /*! \brief Return the GPU with this number, as counted by MXNet and CUDA. */
  static Device& Get(int ordinal);

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  ComputeCapability capability() const { return capability_; }
  int num_multiprocessors() const { return num_multiprocessors_; }
  ContextHandle context() const { return context_; }

  size_t FreeBytes() const;

  /*!
   * \brief Return a kernel of a file, compiled on first use.
   * \\param name the kernel's name without the element type, such as "tofu_multi_fetch"
   */
  FunctionHandle FindKernel(const std::string& file, const std::string& type,
                            const std::string& name);

  /*!
   * \brief Return true if kernels of this GPU can read the memory of another one.
   *
   * The first call enables access. A GPU can access at most 8 others (its peers).
   */
  bool CanRead(const Device& owner);

  /*! \brief Return at least `bytes` of memory for the next work on a stream. Work on a stream runs
   * in order, so it shares one allocation. Only one thread may issue work to a stream at a time, as
   * in MXNet. */
  Address Scratch(StreamHandle stream, size_t bytes);

 private:
  explicit Device(int ordinal);
  bool EnableAccess(const Device& owner);

  int ordinal_;
  DeviceHandle handle_ = 0;
  std::string name_;
  ComputeCapability capability_ = 0;
  int num_multiprocessors_ = 1;
  ContextHandle context_ = nullptr;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, ModuleHandle> modules_;  // by file and type
  std::map<int, bool> can_read_;                                         // by owner's number
  std::map<StreamHandle, std::pair<DeviceMemory, size_t>> scratch_;
};

/*! \brief Makes a GPU's context current on this thread during its lifetime. */
class ContextScope {
 public:
  explicit ContextScope(const Device& device);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

/*! \brief A launch of a kernel on a stream of the GPU. Arguments are copied. */
struct KernelLaunch {
  FunctionHandle function = nullptr;
  unsigned blocks = 1;
  unsigned blocks_y = 1;
  unsigned threads = 1;
  StreamHandle stream = nullptr;
};
void Launch(const Device& device, const KernelLaunch& launch, void* argument);

}  // namespace tofu::cuda
