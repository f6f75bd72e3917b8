/*!
 * \file compiler.cc
 */
#include "cuda/compiler.h"

#include <dlfcn.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "core/base/text.h"
#include "cuda/driver.h"

namespace tofu::cuda {
namespace {

using Program = void*;

/*! \brief The functions of NVRTC that are used, as in nvrtc.h. */
struct Nvrtc {
  int (*nvrtcVersion)(int* major, int* minor);
  const char* (*nvrtcGetErrorString)(int status);
  int (*nvrtcGetNumSupportedArchs)(int* count);
  int (*nvrtcGetSupportedArchs)(int* capabilities);
  int (*nvrtcCreateProgram)(Program* program, const char* source, const char* name, int num_headers,
                            const char* const* headers, const char* const* names);
  int (*nvrtcDestroyProgram)(Program* program);
  int (*nvrtcCompileProgram)(Program program, int num_options, const char* const* options);
  int (*nvrtcGetProgramLogSize)(Program program, size_t* bytes);
  int (*nvrtcGetProgramLog)(Program program, char* log);
  int (*nvrtcGetCUBINSize)(Program program, size_t* bytes);
  int (*nvrtcGetCUBIN)(Program program, char* image);
  int (*nvrtcGetPTXSize)(Program program, size_t* bytes);
  int (*nvrtcGetPTX)(Program program, char* image);
};

void* OpenNvrtc(std::string* path) {
  const char* given = std::getenv("TOFU_NVRTC");
  std::vector<std::string> candidates = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                         "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"};
  if (given != nullptr && *given != '\0') candidates = {given};
  for (int mode : {RTLD_NOLOAD, 0}) {  // prefer one that MXNet or CuPy uses
    for (const std::string& candidate : candidates) {
      *path = candidate;
      void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | mode);
      if (library != nullptr) return library;
    }
  }
  throw CudaError("NVRTC, which compiles the kernels for this GPU, cannot be loaded (" +
                  candidates.front() +
                  "): pip install nvidia-cuda-nvrtc-cu11, or set TOFU_NVRTC to "
                  "the path of libnvrtc.so");
}

/*! \brief Open the library with NVRTC's own headers if it is beside it. NVRTC of CUDA 13.0 looks
 * only in system folders, while a wheel has it elsewhere. Other versions find it or do not need it,
 * so a missing one is no error. */
void OpenBuiltins(const Nvrtc& nvrtc) {
  Dl_info library;
  int major = 0;
  int minor = 0;
  if (nvrtc.nvrtcVersion(&major, &minor) != 0 ||
      dladdr(reinterpret_cast<void*>(nvrtc.nvrtcVersion), &library) == 0)
    return;
  const std::string path = library.dli_fname;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const std::string version = std::to_string(major) + "." + std::to_string(minor);
  dlopen((folder + "libnvrtc-builtins.so." + version).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Nvrtc LoadNvrtc() {
  std::string path;
  void* library = OpenNvrtc(&path);
  Nvrtc nvrtc;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(
        FindSymbol(library, path, name));
  };
  find("nvrtcVersion", &nvrtc.nvrtcVersion);
  find("nvrtcGetErrorString", &nvrtc.nvrtcGetErrorString);
  find("nvrtcGetNumSupportedArchs", &nvrtc.nvrtcGetNumSupportedArchs);
  find("nvrtcGetSupportedArchs", &nvrtc.nvrtcGetSupportedArchs);
  find("nvrtcCreateProgram", &nvrtc.nvrtcCreateProgram);
  find("nvrtcDestroyProgram", &nvrtc.nvrtcDestroyProgram);
  find("nvrtcCompileProgram", &nvrtc.nvrtcCompileProgram);
  find("nvrtcGetProgramLogSize", &nvrtc.nvrtcGetProgramLogSize);
  find("nvrtcGetProgramLog", &nvrtc.nvrtcGetProgramLog);
  find("nvrtcGetCUBINSize", &nvrtc.nvrtcGetCUBINSize);
  find("nvrtcGetCUBIN", &nvrtc.nvrtcGetCUBIN);
  find("nvrtcGetPTXSize", &nvrtc.nvrtcGetPTXSize);
  find("nvrtcGetPTX", &nvrtc.nvrtcGetPTX);
  OpenBuiltins(nvrtc);
  return nvrtc;
}

const Nvrtc& GetNvrtc() {
  static const Nvrtc nvrtc = LoadNvrtc();
  return nvrtc;
}

void Check(int status, const std::string& action) {
  if (status == 0) return;
  throw CudaError(action + " failed: " + GetNvrtc().nvrtcGetErrorString(status));
}

const std::string& SourceOf(const std::string& file) {
  for (const auto& source : KernelSources()) {
    if (source.first == file) return source.second;
  }
  throw CudaError("there is no kernel file " + file);
}

/*! \brief Options of NVRTC: the generation, real (sm_90) or virtual (compute_90), and the type. */
std::vector<std::string> Options(const std::string& architecture, const std::string& type) {
  return {"--gpu-architecture=" + architecture, "--std=c++17", "-DTOFU_TYPE=" + type};
}

std::string ReadResult(Program program, int (*size_of)(Program, size_t*),
                       int (*read)(Program, char*)) {
  size_t bytes = 0;
  Check(size_of(program, &bytes), "asking NVRTC for the size of its result");
  std::string result(bytes, '\0');
  Check(read(program, &result[0]), "reading the result of NVRTC");
  return result;
}

/*! \brief Restores the thread's locale, which NVRTC changes, and with it the encoding in which
 * Python reads files. */
class LocaleKeeper {
 public:
  LocaleKeeper() : locale_(uselocale(static_cast<locale_t>(nullptr))) {}
  ~LocaleKeeper() { uselocale(locale_); }
  LocaleKeeper(const LocaleKeeper&) = delete;
  LocaleKeeper& operator=(const LocaleKeeper&) = delete;

 private:
  const locale_t locale_;
};

std::string Compile(const std::string& file, const std::string& type,
                    const std::string& architecture) {
  const LocaleKeeper keeper;
  const Nvrtc& nvrtc = GetNvrtc();
  std::vector<const char*> headers;
  std::vector<const char*> names;
  for (const auto& source : KernelSources()) {
    names.push_back(source.first.c_str());
    headers.push_back(source.second.c_str());
  }
  Program raw = nullptr;
  Check(nvrtc.nvrtcCreateProgram(&raw, SourceOf(file).c_str(), file.c_str(),
                                 static_cast<int>(names.size()), headers.data(), names.data()),
        "handing " + file + " to NVRTC");
  const auto destroy = [&nvrtc](void* program) { nvrtc.nvrtcDestroyProgram(&program); };
  const std::unique_ptr<void, decltype(destroy)> program(raw, destroy);
  const std::vector<std::string> texts = Options(architecture, type);
  std::vector<const char*> options;
  for (const std::string& text : texts) options.push_back(text.c_str());
  if (nvrtc.nvrtcCompileProgram(raw, static_cast<int>(options.size()), options.data()) != 0) {
    throw CudaError("NVRTC does not compile " + file + " for " + architecture + ":\n" +
                    ReadResult(raw, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog));
  }
  const bool is_real = architecture.compare(0, 3, "sm_") == 0;
  return is_real ? ReadResult(raw, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
                 : ReadResult(raw, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX);
}

/*! \brief Return sm_90 if NVRTC knows 9.0, else the newest older generation, such as compute_80. */
std::string ChooseArchitecture(ComputeCapability capability) {
  const Nvrtc& nvrtc = GetNvrtc();
  int count = 0;
  Check(nvrtc.nvrtcGetNumSupportedArchs(&count), "asking NVRTC for the GPUs it knows");
  std::vector<int> known(count);
  Check(nvrtc.nvrtcGetSupportedArchs(known.data()), "asking NVRTC for the GPUs it knows");
  int best = 0;
  for (int one : known) {
    if (one <= capability) best = std::max(best, one);
  }
  if (best == 0) {
    throw CudaError(Text("this NVRTC does not compile for GPUs of compute capability ",
                         capability / 10, ".", capability % 10));
  }
  return (best == capability ? "sm_" : "compute_") + std::to_string(best);
}

/*! \brief FNV-1a, for names of cached files. */
uint64_t Hash(const std::string& text, uint64_t hash) {
  for (unsigned char byte : text) hash = (hash ^ byte) * 1099511628211u;
  return hash;
}

std::string CacheFolder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const std::string given = variable("TOFU_KERNEL_CACHE");
  if (!given.empty()) return given;
  const std::string cache = variable("XDG_CACHE_HOME");
  if (!cache.empty()) return cache + "/tofu/kernels";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tofu/kernels";
}

void MakeFolder(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0777);
  }
  mkdir(path.c_str(), 0777);
}

/*! \brief The path of a cached result, or an empty text. */
std::string CachePath(const std::string& file, const std::string& type,
                      const std::string& architecture) {
  const std::string folder = CacheFolder();
  if (folder.empty()) return "";
  uint64_t hash = 14695981039346656037u;
  for (const auto& source : KernelSources()) hash = Hash(source.first + '\0' + source.second, hash);
  for (const std::string& option : Options(architecture, type)) hash = Hash(option, hash);
  hash = Hash(std::to_string(CompilerVersion()), hash);
  std::ostringstream name;
  name << folder << "/" << file << "-" << type << "-" << architecture << "-" << std::hex << hash;
  return name.str();
}

/*! \brief Write a file in one step, so that no other process sees a part of it. */
void WriteAtomically(const std::string& path, const std::string& content) {
  MakeFolder(path.substr(0, path.rfind('/')));
  const std::string part = path + "." + std::to_string(getpid());
  std::ofstream stream(part, std::ios::binary);
  stream << content;
  stream.close();
  if (!stream || std::rename(part.c_str(), path.c_str()) != 0) std::remove(part.c_str());
}

}  // namespace

int CompilerVersion() {
  int major = 0;
  int minor = 0;
  Check(GetNvrtc().nvrtcVersion(&major, &minor), "asking NVRTC for its version");
  return major * 100 + minor;
}

std::string CompileKernels(const std::string& file, const std::string& type,
                           ComputeCapability capability, bool as_ptx) {
  return Compile(file, type,
                 as_ptx ? "compute_" + std::to_string(capability) : ChooseArchitecture(capability));
}

std::string GetKernels(const std::string& file, const std::string& type,
                       ComputeCapability capability) {
  const std::string architecture = ChooseArchitecture(capability);
  const std::string path = CachePath(file, type, architecture);
  if (!path.empty()) {
    std::ifstream stream(path, std::ios::binary);
    if (stream) {
      std::ostringstream kept;
      kept << stream.rdbuf();
      if (!kept.str().empty()) return kept.str();
    }
  }
  const std::string image = Compile(file, type, architecture);
  if (!path.empty()) WriteAtomically(path, image);
  return image;
}

}  // namespace tofu::cuda
