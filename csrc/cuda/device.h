/*!
 * \file device.h
 * \brief A GPU: its context, its memory, its kernels, and whose memory it can read.
 *
 * The context is the primary one, which MXNet and CuPy use as well: addresses and streams are
 * theirs.
 */
#ifndef TOFU_CUDA_DEVICE_H_
#define TOFU_CUDA_DEVICE_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/compiler.h"
#include "cuda/driver.h"

namespace tofu {
namespace cuda {

class Device;

/*! \brief Memory of a GPU. */
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const Device& device, size_t bytes);
  DeviceMemory(const Device& device, const void* from, size_t bytes);
  /*! \brief Copies the first bytes to the host, once the default stream is done. */
  void CopyTo(void* to, size_t bytes) const;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  Address address() const { return address_; }

 private:
  const Device* device_ = nullptr;
  Address address_ = 0;
};

/*! \brief One GPU; all threads may use it. */
class Device {
 public:
  /*! \brief The GPU with this number, as MXNet and CUDA count them. */
  static Device& Get(int ordinal);

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  ComputeCapability capability() const { return capability_; }
  int num_multiprocessors() const { return num_multiprocessors_; }
  ContextHandle context() const { return context_; }

  /*! \brief Bytes that nobody has allocated. */
  size_t FreeBytes() const;

  /*! \brief A kernel of a file, compiled for this GPU where that has not been done yet.
   * \param name without the type: "tofu_multi_fetch" */
  FunctionHandle FindKernel(const std::string& file, const std::string& type,
                            const std::string& name);

  /*!
   * \brief Whether kernels of this GPU may read the memory of another one.
   *
   * Access is enabled by the first question. A pair that has the hardware but no free slot (a GPU
   * may be peer of 8 others) has no access.
   */
  bool CanRead(const Device& owner);

  /*! \brief A stream's memory for what its next work alone needs, so many bytes at least. What runs
   * on a stream runs in order, so one piece of memory serves all of it; two streams have two. One
   * thread at a time gives work to a stream, as MXNet has it. */
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
  std::map<int, bool> can_read_;                                         // by the owner's number
  std::map<StreamHandle, std::pair<DeviceMemory, size_t>> scratch_;
};

/*! \brief Makes a GPU's context the current one of this thread, as long as it lives. */
class ContextScope {
 public:
  explicit ContextScope(const Device& device);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

/*! \brief One launch on a stream of the GPU. Arguments are copied. */
struct KernelLaunch {
  FunctionHandle function = nullptr;
  unsigned blocks = 1;
  unsigned blocks_y = 1;
  unsigned threads = 1;
  StreamHandle stream = nullptr;
};
void Launch(const Device& device, const KernelLaunch& launch, void* argument);

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_DEVICE_H_
