/*!
 * \file device_fetch.cc
 */
#include "cuda/device_fetch.h"

#include <cstdlib>
#include <utility>

#include "core/base/text.h"

namespace tofu::cuda {
namespace {

int64_t NumBytes(const std::vector<int64_t>& shape, int64_t element_bytes) {
  for (int64_t extent : shape) element_bytes *= extent;
  return element_bytes;
}

}  // namespace

bool StagesAll() {
  const char* given = std::getenv("TOFU_STAGE_FETCHES");
  return given != nullptr && std::string(given) == "1";
}

DeviceFetch::DeviceFetch(FetchGeometry geometry, std::string type, int device,
                         std::vector<int> input_devices)
    : geometry_(std::move(geometry)),
      type_(std::move(type)),
      device_(Device::Get(device)),
      input_devices_(std::move(input_devices)),
      kernel_(device_.FindKernel("multi_fetch.cu", type_, "tofu_multi_fetch")),
      staged_(input_devices_.size()) {
  const Records& records = RecordsFor(kLargestItem);  // MXNet's allocations are aligned to more
  constexpr size_t kBoundary = 256;                   // alignment of the driver's allocations
  for (size_t i = 0; i < input_devices_.size(); ++i) {
    const ByteRange& read = records.table.read[i];
    staging_.push_back(scratch_bytes_);
    const bool is_near = !StagesAll() && device_.CanRead(Device::Get(input_devices_[i]));
    if (read.begin == read.end || is_near) continue;
    // Staged bytes keep their offset modulo the largest item.
    staged_[i] = {read.begin / kLargestItem * kLargestItem, read.end};
    scratch_bytes_ += (staged_bytes(i) + kBoundary - 1) / kBoundary * kBoundary;
  }
}

int64_t DeviceFetch::staged_bytes(size_t i) const { return staged_[i].end - staged_[i].begin; }

const DeviceFetch::Records& DeviceFetch::RecordsFor(int alignment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(alignment);
  if (found != records_.end()) return found->second;
  Records records;
  records.table = PrepareFetch(geometry_, alignment);
  const auto upload = [&](const auto& list) {
    return DeviceMemory(device_, list.data(), list.size() * sizeof(list[0]));
  };
  records.pieces = upload(records.table.pieces);
  records.sources = upload(records.table.sources);
  return records_.emplace(alignment, std::move(records)).first->second;
}

/*! \brief The largest power of two, up to the largest item, that divides all addresses. */
int DeviceFetch::AlignmentOf(const FetchCall& call) const {
  uintptr_t bits = reinterpret_cast<uintptr_t>(call.output) | kLargestItem;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (staged_bytes(i) == 0) bits |= reinterpret_cast<uintptr_t>(call.inputs[i]);
  }
  return static_cast<int>(bits & (~bits + 1));
}

void DeviceFetch::CheckOverlap(const FetchCall& call) const {
  const auto* output = static_cast<const char*>(call.output);
  const char* output_end = output + NumBytes(geometry_.shape, geometry_.element_bytes);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto* input = static_cast<const char*>(call.inputs[i]);
    const char* input_end = input + NumBytes(geometry_.inputs[i], geometry_.element_bytes);
    if (input < output_end && output < input_end) {
      throw CudaError(Text("a fetch on a GPU cannot overwrite its input ", i,
                           ": give it an output of its own"));
    }
  }
}

/*! \brief Copy the bytes that are read of an input, if it is staged. Return the address of its
 * element 0, which may be before the staged bytes. */
const void* DeviceFetch::Stage(size_t input, const FetchCall& call, Address to) const {
  if (staged_bytes(input) == 0) return call.inputs[input];
  const Device& owner = Device::Get(input_devices_[input]);
  const int64_t begin = staged_[input].begin;
  const ContextScope scope(device_);
  CheckStatus(GetDriver().cuMemcpyPeerAsync(
                  to, device_.context(), reinterpret_cast<Address>(call.inputs[input]) + begin,
                  owner.context(), static_cast<size_t>(staged_bytes(input)), call.stream),
              Text("copying to gpu(", device_.ordinal(), ") what it cannot read of gpu(",
                   owner.ordinal(), ")"));
  return reinterpret_cast<const void*>(to - begin);
}

void DeviceFetch::Launch(const FetchCall& call) {
  CheckOverlap(call);
  const Records& records = RecordsFor(AlignmentOf(call));
  FetchArguments arguments = {};
  arguments.output = static_cast<char*>(call.output);
  arguments.pieces = reinterpret_cast<const PieceRecord*>(records.pieces.address());
  arguments.sources = reinterpret_cast<const SourceRecord*>(records.sources.address());
  arguments.fill = call.fill;
  arguments.adds = call.adds ? 1 : 0;
  arguments.reducer = static_cast<int>(call.reducer);
  const Address scratch = scratch_bytes_ == 0 ? 0 : device_.Scratch(call.stream, scratch_bytes_);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    arguments.inputs[i] = static_cast<const char*>(Stage(i, call, scratch + staging_[i]));
  }
  arguments.num_pieces = static_cast<int>(records.table.pieces.size());
  KernelLaunch launch;
  launch.function = kernel_;
  launch.blocks = records.table.tiles;
  launch.threads = kFetchThreads;
  launch.stream = call.stream;
  cuda::Launch(device_, launch, &arguments);
}

}  // namespace tofu::cuda
