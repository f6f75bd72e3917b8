/*!
 * \file device.cc
 */
#include "cuda/device.h"

#include <memory>

#include "core/base/text.h"

namespace tofu::cuda {
namespace {

std::string NameOf(int ordinal) { return Text("gpu(", ordinal, ")"); }

}  // namespace

Device& Device::Get(int ordinal) {
  static std::mutex mutex;
  // The map is never destroyed, because arrays and executors may outlive static objects.
  static auto* devices = new std::map<int, std::unique_ptr<Device>>();
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Device>& device = (*devices)[ordinal];
  if (device == nullptr) device.reset(new Device(ordinal));
  return *device;
}

Device::Device(int ordinal) : ordinal_(ordinal) {
  const Driver& driver = GetDriver();
  const std::string which = NameOf(ordinal);
  CheckStatus(driver.cuDeviceGet(&handle_, ordinal), "finding " + which);
  char name[128] = "";
  CheckStatus(driver.cuDeviceGetName(name, sizeof(name), handle_),
              "asking for the name of " + which);
  name_ = name;
  const auto attribute = [&](int number) {
    int value = 0;
    CheckStatus(driver.cuDeviceGetAttribute(&value, number, handle_),
                "asking what " + which + " is");
    return value;
  };
  capability_ = attribute(kAttributeMajor) * 10 + attribute(kAttributeMinor);
  num_multiprocessors_ = attribute(kAttributeMultiprocessors);
  CheckStatus(driver.cuDevicePrimaryCtxRetain(&context_, handle_), "opening " + which);
}

FunctionHandle Device::FindKernel(const std::string& file, const std::string& type,
                                  const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const ContextScope scope(*this);
  ModuleHandle& module = modules_[{file, type}];
  if (module == nullptr) {
    const std::string image = GetKernels(file, type, capability_);
    CheckStatus(GetDriver().cuModuleLoadData(&module, image.c_str()),
                "loading " + file + " into " + NameOf(ordinal_));
  }
  FunctionHandle function = nullptr;
  const std::string typed = name + "_" + type;
  CheckStatus(GetDriver().cuModuleGetFunction(&function, module, typed.c_str()),
              "looking for " + typed + " in " + file);
  return function;
}

size_t Device::FreeBytes() const {
  const ContextScope scope(*this);
  size_t free = 0;
  size_t total = 0;
  CheckStatus(GetDriver().cuMemGetInfo(&free, &total),
              "asking for the free memory of " + NameOf(ordinal_));
  return free;
}

bool Device::CanRead(const Device& owner) {
  if (owner.ordinal_ == ordinal_) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = can_read_.find(owner.ordinal_);
  if (known != can_read_.end()) return known->second;
  return can_read_[owner.ordinal_] = EnableAccess(owner);
}

bool Device::EnableAccess(const Device& owner) {
  const Driver& driver = GetDriver();
  const std::string pair = NameOf(ordinal_) + " read " + NameOf(owner.ordinal_);
  int can = 0;
  CheckStatus(driver.cuDeviceCanAccessPeer(&can, handle_, owner.handle_), "asking to let " + pair);
  if (can == 0) return false;
  const ContextScope scope(*this);
  const Status status = driver.cuCtxEnablePeerAccess(owner.context_, 0);
  if (status == kTooManyPeers) return false;
  if (status != kPeerAccessAlreadyEnabled) CheckStatus(status, "letting " + pair);
  return true;
}

Address Device::Scratch(StreamHandle stream, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& [memory, size] = scratch_[stream];
  if (size < bytes) {
    if (size > 0) {  // the stream may be using it
      const ContextScope scope(*this);
      CheckStatus(GetDriver().cuStreamSynchronize(stream), "waiting for " + NameOf(ordinal_));
    }
    size = 0;
    memory = DeviceMemory();  // free first: both may not fit
    memory = DeviceMemory(*this, bytes);
    size = bytes;
  }
  return memory.address();
}

ContextScope::ContextScope(const Device& device) {
  CheckStatus(GetDriver().cuCtxPushCurrent(device.context()), "using " + NameOf(device.ordinal()));
}

ContextScope::~ContextScope() {
  ContextHandle context = nullptr;
  GetDriver().cuCtxPopCurrent(&context);
}

DeviceMemory::DeviceMemory(const Device& device, size_t bytes) : device_(&device) {
  if (bytes == 0) return;
  const ContextScope scope(device);
  CheckStatus(GetDriver().cuMemAlloc(&address_, bytes),
              Text("allocating ", bytes, " bytes on ", NameOf(device.ordinal())));
}

DeviceMemory::DeviceMemory(const Device& device, const void* from, size_t bytes)
    : DeviceMemory(device, bytes) {
  if (bytes == 0) return;
  const ContextScope scope(device);
  const std::string action =
      "copying " + std::to_string(bytes) + " bytes to " + NameOf(device.ordinal());
  CheckStatus(GetDriver().cuMemcpyHtoD(address_, from, bytes), action);
  // The copy returns when the driver has the bytes, but other streams do not wait for its end.
  CheckStatus(GetDriver().cuStreamSynchronize(nullptr), action);
}

void DeviceMemory::CopyTo(void* to, size_t bytes) const {
  if (bytes == 0) return;
  const ContextScope scope(*device_);
  CheckStatus(GetDriver().cuStreamSynchronize(nullptr),
              "waiting for " + NameOf(device_->ordinal()));
  CheckStatus(GetDriver().cuMemcpyDtoH(to, address_, bytes),
              Text("copying ", bytes, " bytes from ", NameOf(device_->ordinal())));
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  ContextHandle context = device_->context();
  if (GetDriver().cuCtxPushCurrent(context) != kSuccess)
    return;  // the process is ending and frees everything
  GetDriver().cuMemFree(address_);
  GetDriver().cuCtxPopCurrent(&context);
}

void Launch(const Device& device, const KernelLaunch& launch, void* argument) {
  if (launch.blocks == 0 || launch.blocks_y == 0) return;
  const ContextScope scope(device);
  void* arguments[] = {argument};
  CheckStatus(
      GetDriver().cuLaunchKernel(launch.function, launch.blocks, launch.blocks_y, 1, launch.threads,
                                 1, 1, 0, launch.stream, arguments, nullptr),
      Text("launching ", launch.blocks, " x ", launch.blocks_y, " blocks on ",
           NameOf(device.ordinal())));
}

}  // namespace tofu::cuda
