/*!
 * \file gpu_parts.cc
 * \brief Every part kernel and random fetches on a GPU, with the driver and NVRTC only.
 *
 *     gpu_parts check             compare with the same source on the CPU, and a loop over elements
 *     gpu_parts check --few       fewer cases, for the slow compute-sanitizer
 *     gpu_parts measure [MIB]     bandwidths over MIB of data (256), one JSON object per line
 *     gpu_parts measure MIB PART  only of parts whose names contain PART
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

constexpr int kWrite = 1;  // MXNet's code of a request
constexpr int kAdd = tofu::cuda::kAdditionRequested;

/*! \brief The arrays of a case, without the arrow between inputs and outputs. */
std::string ArraysOf(const PartCase& part) {
  std::string letters = part.letters;
  letters.erase(letters.find('>'), 1);
  return letters;
}

/*! \brief Returns true if arrays are equal; prints the first element that differs. */
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

/*! \brief A way to run a part. */
struct Trial {
  std::string type;
  int request = kWrite;
  bool in_place = false;  // the first output overwrites the first input
  int shift = 0;          // elements between a multiple of 16 bytes and the arrays
};

std::string Describe(const PartCase& part, const View& view, const Trial& trial) {
  return std::string(part.kernel.name) + "_" + trial.type + " (" + std::to_string(view.outer) +
         ", " + std::to_string(view.extent) + ", " + std::to_string(view.inner) + ") request " +
         std::to_string(trial.request) + (trial.in_place ? " in place" : "") + " shift " +
         std::to_string(trial.shift);
}

/*! \brief Returns true if the kernel leaves the same arrays on the GPU and on the CPU. */
bool IsRight(const PartCase& part, const View& view, const Trial& trial) {
  std::mt19937 random(7);
  const std::string letters = ArraysOf(part);
  std::vector<HostArray> host;
  std::vector<DeviceMemory> memory;
  PartArguments arguments = ArgumentsOf(part, view, trial.type, trial.request);
  for (size_t i = 0; i < letters.size(); ++i) {
    HostArray::Size size = SizeOfArray(letters[i], part, view, trial.type);
    size.cells += static_cast<size_t>(trial.shift);
    host.emplace_back(size);
    DrawInto(letters[i], view, &random, &host.back());
    memory.emplace_back(Device::Get(0), host.back().bytes.data(), host.back().bytes.size());
  }
  std::vector<HostArray> expected = host;
  const auto place = [&](const auto& address_of) {
    for (size_t i = 0; i < host.size(); ++i) {
      arguments.tensors[i] = address_of(i) + trial.shift * BytesOf(host[i].type);
    }
  };
  place([&](size_t i) { return expected[i].bytes.data(); });
  if (!tofu_test::RunPartOnCpu(part.kernel, trial.type, arguments)) return false;
  place([&](size_t i) { return reinterpret_cast<char*>(memory[i].address()); });
  const size_t first_output = static_cast<size_t>(arguments.num_inputs);
  if (trial.in_place) {
    arguments.tensors[first_output] = arguments.tensors[0];
    std::swap(expected[0], expected[first_output]);
  }
  LaunchPart(part.kernel, trial.type, 0, nullptr, arguments);
  bool all_equal = true;
  for (size_t i = 0; i < host.size(); ++i) {
    if (trial.in_place && i == first_output) continue;
    HostArray found = host[i];
    ReadBack(memory[i], &found);
    const double tolerance = host[i].type == "float16" ? 2e-3
                             : trial.type == "float64" ? 1e-12
                                                       : 4e-6;
    all_equal &= AreEqual(found, expected[i], tolerance,
                          Describe(part, view, trial) + " array " + std::to_string(i));
  }
  return all_equal;
}

/*! \brief Returns true if MXNet may run the operator in place (FInplaceOption). */
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
                                   {300, 1030, 1}, {2, 10000, 1}, {1, 2, 40000}};
  int done = 0;
  for (const PartCase& part : PartCases()) {
    for (size_t v = 0; v < views.size(); ++v) {
      const View& view = views[v];
      if (few && v % 6 != 1) continue;
      if (Is(part, "tofu_one_hot") && view.inner != 1) continue;
      for (const std::string type : {"float32", "float64", "float16"}) {
        if (few && v > 7 && type != "float32") continue;  // a large one, which blocks share
        std::vector<Trial> trials = {{type}, {type, kAdd}, {type, kWrite, false, 1}};
        if (MayBeInPlace(part)) trials.push_back({type, kWrite, true});
        if (few && v > 7) trials.resize(1);  // the large one takes its time
        for (const Trial& trial : trials) *failures += IsRight(part, view, trial) ? 0 : 1;
        done += static_cast<int>(trials.size());
      }
    }
  }
  return done;
}

/*! \brief Memory on the GPU with numbers in it, none of which is zero: so many are drawn, the rest
 * repeats them. */
DeviceMemory Fill(char letter, const PartCase& part, const View& view, const std::string& type,
                  std::mt19937* random) {
  constexpr Index kDrawn = 1 << 20;
  const HostArray::Size all = SizeOfArray(letter, part, view, type);
  HostArray drawn({all.type, std::min<size_t>(all.cells, kDrawn)});
  DrawInto(letter, view, random, &drawn);
  return Repeat(drawn, all.bytes());
}

/*! \brief Bytes that a kernel has to move: each array once, of a table the rows that indices mean,
 * which the cache holds from then on. */
double BytesMoved(const PartCase& part, const View& view, const std::string& type) {
  const auto bytes_of = [&](char letter) {
    const Index read = std::min<Index>(view.count, kMostDrawn);
    const size_t rows = static_cast<size_t>(view.outer * view.inner * read * BytesOf(type));
    return static_cast<double>(letter == 't' ? rows
                                             : SizeOfArray(letter, part, view, type).bytes());
  };
  double bytes = 0;
  for (char letter : ArraysOf(part)) bytes += bytes_of(letter);
  for (const char* letter = part.untouched; *letter != 0; ++letter) bytes -= bytes_of(*letter);
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
    views.push_back({"lines across, 1,024", {std::max<Index>(1, cells >> 20), 1024, 1024}});
  return views;
}

void MeasureParts(int mib, int runs, const std::string& wanted) {
  const size_t bytes = static_cast<size_t>(mib) << 20;
  const double copy = 2.0 * static_cast<double>(bytes) / SecondsOfCopy(bytes, runs);
  std::printf("{\"what\": \"copy\", \"bytes\": %.0f, \"bandwidth\": %.6g}\n",
              2.0 * static_cast<double>(bytes), copy);
  if (wanted.empty()) MeasureFetches(bytes, runs, copy);
  std::mt19937 random(7);
  for (const PartCase& part : PartCases()) {
    if (std::string(part.kernel.name).find(wanted) == std::string::npos) continue;
    for (const char* type : {"float32", "float16"}) {
      const Index cells = static_cast<Index>(bytes) / BytesOf(type);
      for (const Measured& one : ViewsFor(part, cells)) {
        PartArguments arguments = ArgumentsOf(part, one.view, type, kWrite);
        arguments.temperature = 1;  // as nearly every model has it
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
            "\"view\": \"%s\", \"bytes\": %.0f, \"seconds\": %.6g, \"share\": %.4f, \"goal\": "
            "%s}\n",
            part.kernel.name, type, part.letters, one.name, moved, seconds, moved / seconds / copy,
            Is(part, "tofu_pick") ? "null" : "0.7");  // a cell here and there: no bandwidth
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
    MeasureParts(mib, mib >= 64 ? 20 : 2, arguments.size() > 2 ? arguments[2] : "");
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
    std::fprintf(stderr, "usage: gpu_parts check [--few] | measure [MIB [PART]]\n");
    return 2;
  }
  try {
    return tofu_gpu::Main(arguments);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
}
