/*!
 * \file gpu_parts.cc
 * \brief Every part kernel and every kind of fetch on a GPU, with the driver and NVRTC alone.
 *
 *     gpu_parts check             numbers against the same source on the CPU, and a loop over cells
 *     gpu_parts check --few       a few of them: for compute-sanitizer, which is slow
 *     gpu_parts measure [MIB]     bandwidths over MIB of data (256), a JSON object in each line
 */
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "emulated_kernels.h"
#include "gpu_fetches.h"
#include "gpu_part_cases.h"

namespace tofu_gpu {
namespace {

constexpr int kWrite = 1;  // MXNet's codes of what an output is asked for
constexpr int kAdd = tofu::cuda::kAdditionAsked;

/*! \brief The arrays of a case, without the arrow between inputs and outputs. */
std::string ArraysOf(const PartCase& part) {
  std::string letters = part.letters;
  letters.erase(letters.find('>'), 1);
  return letters;
}

/*! \brief The same kernel, compiled as C++ and run thread by thread, over arrays of the host. */
bool RunOnCpu(const PartCase& part, const std::string& type, PartArguments arguments,
              std::vector<HostArray>* arrays) {
  for (size_t i = 0; i < arrays->size(); ++i) arguments.tensors[i] = (*arrays)[i].bytes.data();
  return tofu_test::RunPartOnCpu(part.kernel, type, arguments);
}

std::string Describe(const PartCase& part, const View& view, const std::string& type, int request) {
  return std::string(part.kernel.name) + "_" + type + " (" + std::to_string(view.outer) + ", " +
         std::to_string(view.extent) + ", " + std::to_string(view.inner) + ") request " +
         std::to_string(request);
}

/*! \brief Prints the first cell that differs; whether there is none. */
bool AreEqual(const HostArray& found, const HostArray& expected, double tolerance,
              const std::string& what) {
  size_t wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < found.cells(); ++i) {
    const double x = found.Get(i);
    const double y = expected.Get(i);
    if (!(std::abs(x - y) <= tolerance * (1 + std::abs(y))) && wrong++ == 0) first = i;
  }
  if (wrong > 0) {
    std::printf("%s: %zu of %zu differ, the first at %zu: %.9g, expected %.9g\n", what.c_str(),
                wrong, found.cells(), first, found.Get(first), expected.Get(first));
  }
  return wrong == 0;
}

/*! \brief All arrays after the kernel has run, on the GPU and on the CPU; `in_place`: the first
 * output takes the place of the first input. */
bool IsRight(const PartCase& part, const View& view, const std::string& type, int request,
             bool in_place) {
  std::mt19937 random(7);
  const std::string letters = ArraysOf(part);
  std::vector<HostArray> host;
  std::vector<DeviceMemory> memory;
  PartArguments arguments = ArgumentsOf(part, view, type, request);
  for (size_t i = 0; i < letters.size(); ++i) {
    host.push_back(MakeArray(letters[i], part, view, type));
    DrawInto(letters[i], view, &random, &host.back());
    memory.emplace_back(Device::Get(0), host.back().bytes.data(), host.back().bytes.size());
    arguments.tensors[i] = reinterpret_cast<void*>(memory.back().address());
  }
  if (in_place) arguments.tensors[arguments.num_inputs] = arguments.tensors[0];
  std::vector<HostArray> expected = host;
  PartArguments separate = arguments;
  if (!RunOnCpu(part, type, separate, &expected)) return false;
  if (in_place) std::swap(expected[0], expected[arguments.num_inputs]);
  LaunchPart(part.kernel, type, 0, nullptr, arguments);
  bool all_equal = true;
  for (size_t i = 0; i < host.size(); ++i) {
    if (in_place && i == static_cast<size_t>(arguments.num_inputs)) continue;
    HostArray found = host[i];
    ReadBack(memory[i], &found);
    const double tolerance = host[i].type == "float16" ? 2e-3 : type == "float64" ? 1e-12 : 4e-6;
    all_equal &= AreEqual(found, expected[i], tolerance,
                          Describe(part, view, type, request) + (in_place ? " in place" : "") +
                              " array " + std::to_string(i));
  }
  return all_equal;
}

/*! \brief Whether MXNet may give the kernel's operator one array for both (FInplaceOption). */
bool MayBeInPlace(const PartCase& part) {
  const std::string name = part.kernel.name;
  return part.letters[0] == 'd' && std::string(part.letters).find(">d") != std::string::npos &&
         (name.find("apply") != std::string::npos || name == "tofu_scale" ||
          name == "tofu_divide_by_window");
}

int CheckParts(bool few, int* failures) {
  const std::vector<View> views = {{3, 7, 5},      {2, 300, 1},   {1, 300, 3},  {40, 33, 1},
                                   {2, 3, 300},    {1, 1, 1},     {5, 2, 65},   {60, 9, 1},
                                   {1, 3000, 1},   {70, 1, 1},    {3, 2, 900},  {1, 5, 4099, 300},
                                   {300, 1030, 1}, {2, 40000, 1}, {1, 2, 40000}};
  int done = 0;
  for (const PartCase& part : PartCases()) {
    for (size_t v = 0; v < views.size(); ++v) {
      const View& view = views[v];
      if (few && v % 5 != 1) continue;
      if (Is(part, "tofu_one_hot") && view.inner != 1) continue;
      for (const char* type : {"float32", "float64", "float16"}) {
        for (int request : {kWrite, kAdd}) {
          *failures += IsRight(part, view, type, request, false) ? 0 : 1;
          ++done;
        }
        if (!MayBeInPlace(part)) continue;
        *failures += IsRight(part, view, type, kWrite, true) ? 0 : 1;
        ++done;
      }
    }
  }
  return done;
}

/*! \brief Memory on the GPU with numbers in it, none of which is zero. */
DeviceMemory Fill(char letter, const PartCase& part, const View& view, const std::string& type,
                  std::mt19937* random) {
  const HostArray array = MakeArray(letter, part, view, type);
  constexpr size_t kDrawn = 1 << 20;  // cells; the rest repeats them
  HostArray drawn(array.type, std::min(array.cells(), kDrawn));
  DrawInto(letter, view, random, &drawn);
  std::vector<char> bytes(array.bytes.size());
  for (size_t at = 0; at < bytes.size(); at += drawn.bytes.size()) {
    std::memcpy(&bytes[at], drawn.bytes.data(), std::min(drawn.bytes.size(), bytes.size() - at));
  }
  return DeviceMemory(Device::Get(0), bytes.data(), bytes.size());
}

/*! \brief Bytes that a kernel has to move: each array once, of a table the rows that are read. */
double BytesMoved(const PartCase& part, const View& view, const std::string& type) {
  double bytes = 0;
  for (char letter : ArraysOf(part)) {
    const size_t all = MakeArray(letter, part, view, type).bytes.size();
    bytes += letter == 't'
                 ? static_cast<double>(view.outer * view.inner * view.count * BytesOf(type))
                 : static_cast<double>(all);
  }
  if (Is(part, "tofu_pick"))
    bytes = 3.0 * static_cast<double>(view.outer * view.inner * BytesOf(type));
  if (Is(part, "tofu_make_loss_gradient")) return bytes;
  return bytes;
}

struct Measured {
  const char* name;
  View view;
};

/*! \brief Shapes as models have them, all of so many cells. */
std::vector<Measured> ViewsFor(const PartCase& part, Index cells) {
  const PartLoop loop = part.kernel.loop;
  if (Is(part, "tofu_take")) return {{"table of 50,000 rows", {1, 50000, 1024, cells / 1024}}};
  if (Is(part, "tofu_take_backward")) {
    return {{"table of 50,000 rows, half as many indices", {1, 50000, cells / 65536, 32768}}};
  }
  if (loop == PartLoop::kReduceAll) return {{"all cells", {1, cells, 1}}};
  if (loop == PartLoop::kReducePositions || loop == PartLoop::kMapPositions) {
    return {{"images, 256 channels", {32, 256, cells / 8192}},
            {"images, 32 channels", {32, 32, cells / 1024}},
            {"rows of 1,024 channels", {cells / 1024, 1024, 1}}};
  }
  std::vector<Measured> views = {{"lines of 1,024", {cells / 1024, 1024, 1}},
                                 {"lines of 64", {cells / 64, 64, 1}},
                                 {"lines of 32,768", {cells / 32768, 32768, 1}}};
  if (!Is(part, "tofu_one_hot"))
    views.push_back({"lines across, 1,024", {cells >> 20, 1024, 1024}});
  return views;
}

void MeasureParts(int mib, int runs) {
  const size_t bytes = static_cast<size_t>(mib) << 20;
  const double copy = 2.0 * static_cast<double>(bytes) / SecondsOfCopy(bytes, runs);
  std::printf("{\"what\": \"copy\", \"bytes\": %.0f, \"bandwidth\": %.6g}\n",
              2.0 * static_cast<double>(bytes), copy);
  std::mt19937 random(7);
  for (const PartCase& part : PartCases()) {
    for (const char* type : {"float32", "float16"}) {
      const Index cells = static_cast<Index>(bytes) / BytesOf(type);
      for (const Measured& one : ViewsFor(part, cells)) {
        PartArguments arguments = ArgumentsOf(part, one.view, type, kWrite);
        std::vector<DeviceMemory> memory;
        for (char letter : ArraysOf(part)) {
          memory.push_back(Fill(letter, part, one.view, type, &random));
          arguments.tensors[memory.size() - 1] = reinterpret_cast<void*>(memory.back().address());
        }
        const double seconds =
            MedianSeconds(runs, [&] { LaunchPart(part.kernel, type, 0, nullptr, arguments); });
        const double moved = BytesMoved(part, one.view, type);
        std::printf(
            "{\"what\": \"part\", \"kernel\": \"%s\", \"type\": \"%s\", \"letters\": \"%s\", "
            "\"view\": \"%s\", \"bytes\": %.0f, \"seconds\": %.6g, \"share\": %.4f}\n",
            part.kernel.name, type, part.letters, one.name, moved, seconds, moved / seconds / copy);
      }
    }
  }
}

int Main(const std::vector<std::string>& arguments) {
  const Device& gpu = Device::Get(0);
  std::printf("{\"what\": \"device\", \"name\": \"%s\", \"capability\": %d, \"nvrtc\": %d}\n",
              gpu.name().c_str(), gpu.capability(), tofu::cuda::CompilerVersion());
  if (arguments[0] == "measure") {
    const int mib = arguments.size() > 1 ? std::atoi(arguments[1].c_str()) : 256;
    MeasureParts(mib, mib >= 64 ? 20 : 2);
    return 0;
  }
  const bool few = arguments.size() > 1 && arguments[1] == "--few";
  int failures = 0;
  const int parts = CheckParts(few, &failures);
  const int fetches = CheckFetches(&failures);
  std::printf("{\"what\": \"checks\", \"parts\": %d, \"fetches\": %d, \"failed\": %d}\n", parts,
              fetches, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tofu_gpu

int main(int count, char** values) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::vector<std::string> arguments(values + 1, values + count);
  if (arguments.empty() || (arguments[0] != "check" && arguments[0] != "measure")) {
    std::fprintf(stderr, "usage: gpu_parts check [--few] | measure [MIB]\n");
    return 2;
  }
  try {
    return tofu_gpu::Main(arguments);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
}
