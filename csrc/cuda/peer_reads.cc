/*!
 * \file peer_reads.cc
 */
#include "cuda/peer_reads.h"

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "cuda/device_fetch.h"

namespace tofu::cuda {
namespace {

constexpr int64_t kWords = 1 << 18;  // 1 MiB: more than one page of most sizes

/*! \brief Return words that differ, at each place, from the words of all other pairs. */
std::vector<uint32_t> PatternOf(int reader, int owner) {
  std::vector<uint32_t> words(kWords);
  uint32_t word = 2654435761u * static_cast<uint32_t>(reader * 64 + owner + 1);
  for (uint32_t& one : words) one = word = word * 1664525u + 1013904223u;
  return words;
}

bool ReadsWhatIsThere(int reader, int owner) {
  const std::vector<uint32_t> pattern = PatternOf(reader, owner);
  const size_t bytes = pattern.size() * sizeof(uint32_t);
  const DeviceMemory there(Device::Get(owner), pattern.data(), bytes);
  const DeviceMemory here(Device::Get(reader), bytes);
  FetchGeometry geometry;
  geometry.shape = {kWords};
  geometry.inputs = {{kWords}};
  geometry.pieces = {{{{0, kWords}}, {{0, {0}}}}};
  DeviceFetch fetch(geometry, "int32", reader, {owner});
  FetchCall call;
  call.output = reinterpret_cast<void*>(here.address());
  call.inputs = {reinterpret_cast<const void*>(there.address())};
  fetch.Launch(call);
  std::vector<uint32_t> found(pattern.size());
  here.CopyTo(found.data(), bytes);
  return found == pattern;
}

}  // namespace

void CheckPeerReads(int reader, int owner) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> right;
  if (reader == owner) return;
  const std::lock_guard<std::mutex> lock(mutex);
  if (right.count({reader, owner}) > 0) return;
  if (!ReadsWhatIsThere(reader, owner)) {
    throw CudaError(
        Text("gpu(", reader, ") reads other bytes from the memory of gpu(", owner,
             ") than are there, as happens where an IOMMU stands between them: turn it off in "
             "the BIOS or with iommu=pt, or set TOFU_STAGE_FETCHES=1, which has the driver "
             "copy instead"));
  }
  right.insert({reader, owner});
}

}  // namespace tofu::cuda
