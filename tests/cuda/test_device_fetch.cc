/*!
 * \file test_device_fetch.cc
 * \brief The host side of a fetch, with a driver that runs kernels on the CPU.
 */
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "../core/check.h"
#include "cuda/compiler.h"
#include "cuda/device_fetch.h"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)

/*! \brief Rows of two tensors of 4 x 6 bytes side by side, their sum below, and an element in no
 * piece. */
FetchGeometry MakeGeometry() {
  FetchGeometry geometry;
  geometry.shape = {3, 6};
  geometry.inputs = {{4, 6}, {4, 6}};
  geometry.element_bytes = 1;
  geometry.pieces = {{{{0, 2}, {0, 3}}, {{0, {1, 3}}}},
                     {{{0, 2}, {3, 6}}, {{1, {0, 0}}}},
                     {{{2, 3}, {0, 5}}, {{0, {3, 0}}, {1, {2, 1}}}}};
  return geometry;
}

struct Arrays {
  Arrays() : a(24), b(24), out(18, 100) {
    for (int i = 0; i < 24; ++i) {
      a[i] = static_cast<uint8_t>(i);
      b[i] = static_cast<uint8_t>(30 + i);
    }
  }
  FetchCall Call() {
    FetchCall call;
    call.output = out.data();
    call.inputs = {a.data(), b.data()};
    return call;
  }
  std::vector<uint8_t> a, b, out;
};

/*! \brief The expected region: the driver flips a bit of the elements of b, which are copied. */
std::vector<uint8_t> Expect(const Arrays& arrays) {
  const auto b = [&](int i) { return arrays.b[i] ^ 64; };
  std::vector<uint8_t> region;
  for (int row = 0; row < 2; ++row) {
    for (int i = 0; i < 3; ++i) region.push_back(arrays.a[(row + 1) * 6 + 3 + i]);
    for (int i = 0; i < 3; ++i) region.push_back(static_cast<uint8_t>(b(row * 6 + i)));
  }
  for (int i = 0; i < 5; ++i) region.push_back(static_cast<uint8_t>(arrays.a[18 + i] + b(13 + i)));
  region.push_back(0);
  return region;
}

void TestCopiesWhatCannotBeRead() {
  DeviceFetch fetch(MakeGeometry(), "uint8", 2, {2, 3});
  CHECK(fetch.staged_bytes(0) == 0);
  CHECK(fetch.staged_bytes(1) == 18);  // from an item up to the last byte that is read
  Arrays arrays;
  fetch.Launch(arrays.Call());
  CHECK(arrays.out == Expect(arrays));
  CHECK(!Device::Get(3).CanRead(Device::Get(2)));
  CHECK(Device::Get(3).CanRead(Device::Get(3)));
  CHECK(Device::Get(3).CanRead(Device::Get(4)));
}

/*! \brief Two graphs may share a fetch. */
void TestStreamsDoNotShareWhatIsCopied() {
  DeviceFetch fetch(MakeGeometry(), "uint8", 2, {3, 3});
  int streams[2];
  Arrays arrays;
  for (int* stream : {&streams[0], &streams[1], &streams[0]}) {
    FetchCall call = arrays.Call();
    call.stream = stream;
    fetch.Launch(call);
  }
  Device& device = Device::Get(2);
  CHECK(device.Scratch(&streams[0], 1) == device.Scratch(&streams[0], 18));
  CHECK(device.Scratch(&streams[0], 1) != device.Scratch(&streams[1], 1));
}

void TestFetchesOfAStreamTakeTurnsInItsMemory() {
  DeviceFetch small(MakeGeometry(), "uint8", 2, {2, 3});
  FetchGeometry geometry = MakeGeometry();
  geometry.inputs[1] = {4000, 6};
  geometry.pieces[1].sources[0].begin = {3998, 0};
  DeviceFetch large(geometry, "uint8", 2, {2, 3});
  int stream;
  Arrays arrays;
  FetchCall call = arrays.Call();
  call.stream = &stream;
  small.Launch(call);
  arrays.b.resize(24000);
  for (int i = 0; i < 12; ++i) arrays.b[23988 + i] = arrays.b[i];
  call.inputs[1] = arrays.b.data();
  for (DeviceFetch* fetch : {&large, &small, &large}) {
    arrays.out.assign(18, 100);
    fetch->Launch(call);
    CHECK(arrays.out == Expect(arrays));
  }
  const Address at = Device::Get(2).Scratch(&stream, 1);
  CHECK(at == Device::Get(2).Scratch(&stream, large.staged_bytes(1)));
}

void TestAllIsCopiedWhereThatIsAsked() {
  setenv("TOFU_STAGE_FETCHES", "1", 1);
  DeviceFetch fetch(MakeGeometry(), "uint8", 4, {4, 4});
  unsetenv("TOFU_STAGE_FETCHES");
  CHECK(fetch.staged_bytes(0) > 0 && fetch.staged_bytes(1) > 0);
  Arrays arrays;
  Arrays marked;
  for (uint8_t& byte : marked.a) byte ^= 64;
  fetch.Launch(arrays.Call());
  CHECK(arrays.out == Expect(marked));
}

void TestKeepsKernelsOnDisk() {
  const std::string folder = std::string(std::getenv("TOFU_KERNEL_CACHE")) + "/new/one";
  setenv("TOFU_KERNEL_CACHE", folder.c_str(), 1);
  const std::string first = GetKernels("multi_fetch.cu", "int32", 86);
  CHECK(first.find("--gpu-architecture=compute_80") != std::string::npos);  // 86 is unknown
  CHECK(GetKernels("multi_fetch.cu", "int32", 80).find("sm_80") != std::string::npos);
  CHECK(GetKernels("multi_fetch.cu", "int32", 86) == first);
  struct stat info;
  CHECK(stat(folder.c_str(), &info) == 0);
  setenv("TOFU_KERNEL_CACHE", "/proc/none", 1);  // not writable
  CHECK(GetKernels("multi_fetch.cu", "int32", 86) == first);
  CHECK_THROWS(CudaError, GetKernels("multi_fetch.cu", "int32", 30), "compute capability 3.0");
  CHECK_THROWS(CudaError, GetKernels("no.cu", "int32", 80), "there is no kernel file no.cu");
}

void TestNamesWhatIsMissing() {
  CHECK_THROWS(CudaError, Device::Get(0).FindKernel("multi_fetch.cu", "int32", "tofu_none"),
               "looking for tofu_none_int32 in multi_fetch.cu failed");
  CHECK_THROWS(CudaError, Device::Get(99), "finding gpu(99) failed");
  KernelLaunch launch;
  launch.function = Device::Get(0).FindKernel("multi_fetch.cu", "int32", "tofu_multi_fetch");
  launch.blocks_y = 65536;
  CHECK_THROWS(CudaError, Launch(Device::Get(0), launch, nullptr),
               "launching 1 x 65536 blocks on gpu(0) failed");
}

}  // namespace

int main() {
  setenv("EMULATED_NO_PEERS", "2-3", 1);
  setenv("EMULATED_COPY_MARK", "64", 1);
  TestCopiesWhatCannotBeRead();
  TestStreamsDoNotShareWhatIsCopied();
  TestFetchesOfAStreamTakeTurnsInItsMemory();
  TestAllIsCopiedWhereThatIsAsked();
  TestNamesWhatIsMissing();
  TestKeepsKernelsOnDisk();
  return tofu_test::Finish("device_fetch");
}
