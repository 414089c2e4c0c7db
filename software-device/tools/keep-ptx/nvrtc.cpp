// A libnvrtc that stands before NVIDIA's, for programs that compile kernels at run time to machine
// code. It asks the real one for PTX instead and hands that out as the "cubin"; the software
// device's cuModuleLoadData takes either. Everything else is passed on.
#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr int kInternalError = 11;  // NVRTC_ERROR_INTERNAL_ERROR

bool is_this_library(const char *path) {
  Dl_info own;
  struct stat a, b;
  return dladdr(reinterpret_cast<void *>(is_this_library), &own) && stat(own.dli_fname, &a) == 0 &&
         stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The first libnvrtc that is not this one, where the loader would look, and in the usual places.
void *open_real() {
  std::vector<std::string> folders;
  if (const char *named = getenv("SOFTWARE_DEVICE_NVRTC"))
    if (void *real = dlopen(named, RTLD_NOW | RTLD_LOCAL)) return real;
  if (const char *list = getenv("LD_LIBRARY_PATH")) {
    std::string rest = list;
    for (size_t at = 0; at <= rest.size();) {
      size_t end = std::min(rest.find(':', at), rest.size());
      folders.push_back(rest.substr(at, end - at));
      at = end + 1;
    }
  }
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *home = getenv(variable)) folders.push_back(std::string(home) + "/lib64");
  for (const char *usual : {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"})
    folders.push_back(usual);
  for (const std::string &folder : folders) {
    std::string path = (folder.empty() ? "." : folder) + "/" NVRTC_SONAME;
    if (is_this_library(path.c_str())) continue;
    if (void *real = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return real;
  }
  fprintf(stderr,
          "software-device: error: there is no %s beside ours; name it in "
          "SOFTWARE_DEVICE_NVRTC\n",
          NVRTC_SONAME);
  return nullptr;
}

template <class Function>
Function *find(const char *name) {
  static void *const real = open_real();
  return real ? reinterpret_cast<Function *>(dlsym(real, name)) : nullptr;
}

// Programs that asked for machine code and were given PTX.
std::mutex mutex;
std::set<const void *> retargeted;

bool is_retargeted(const void *program) {
  std::lock_guard guard(mutex);
  return retargeted.count(program) != 0;
}

// Whether an option's value is a real architecture; *virtual_name then names the newest virtual
// one, that the compiler knows, of those up to it.
bool real_architecture(const std::string &value, std::string *virtual_name) {
  if (value.compare(0, 3, "sm_") != 0) return false;
  int wanted = atoi(value.c_str() + 3), best = 0, count = 0;
  auto *count_of = find<int(int *)>("nvrtcGetNumSupportedArchs");
  auto *list_of = find<int(int *)>("nvrtcGetSupportedArchs");
  if (count_of && list_of && count_of(&count) == 0 && count > 0) {
    std::vector<int> known(static_cast<size_t>(count));
    if (list_of(known.data()) == 0)
      for (int each : known)
        if (each <= wanted && each > best) best = each;
  }
  *virtual_name = "compute_" + std::to_string(best ? best : wanted);
  return true;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define FORWARD(name, parameters, arguments)               \
  EXPORT int name parameters {                             \
    static auto *const real = find<int parameters>(#name); \
    return real ? real arguments : kInternalError;         \
  }

EXPORT const char *nvrtcGetErrorString(int result) {
  static auto *const real = find<const char *(int)>("nvrtcGetErrorString");
  return real ? real(result) : "there is no real libnvrtc";
}

EXPORT int nvrtcCompileProgram(void *program, int count, const char *const *options) {
  static auto *const real = find<int(void *, int, const char *const *)>("nvrtcCompileProgram");
  if (!real) return kInternalError;
  if (count < 0 || (count > 0 && !options)) return real(program, count, options);
  std::vector<std::string> texts;
  bool changed = false;
  for (int i = 0; i < count; i++) {
    std::string text = options[i] ? options[i] : "";
    // The name and its value are one option or two.
    size_t equals = text.find('=');
    std::string name = text.substr(0, equals), virtual_name;
    if (name == "-arch" || name == "--gpu-architecture") {
      if (equals != std::string::npos &&
          real_architecture(text.substr(equals + 1), &virtual_name)) {
        text = name + "=" + virtual_name;
        changed = true;
      } else if (equals == std::string::npos && i + 1 < count && options[i + 1] &&
                 real_architecture(options[i + 1], &virtual_name)) {
        texts.push_back(text);
        text = virtual_name;
        changed = true;
        i++;
      }
    }
    texts.push_back(text);
  }
  if (!changed) return real(program, count, options);
  std::vector<const char *> pointers;
  for (const std::string &text : texts) pointers.push_back(text.c_str());
  {
    std::lock_guard guard(mutex);
    retargeted.insert(program);
  }
  return real(program, static_cast<int>(pointers.size()), pointers.data());
}

FORWARD(nvrtcGetPTXSize, (void *program, size_t *size), (program, size))
FORWARD(nvrtcGetPTX, (void *program, char *ptx), (program, ptx))

EXPORT int nvrtcGetCUBINSize(void *program, size_t *size) {
  static auto *const real = find<int(void *, size_t *)>("nvrtcGetCUBINSize");
  if (is_retargeted(program)) return nvrtcGetPTXSize(program, size);
  return real ? real(program, size) : kInternalError;
}

EXPORT int nvrtcGetCUBIN(void *program, char *cubin) {
  static auto *const real = find<int(void *, char *)>("nvrtcGetCUBIN");
  if (is_retargeted(program)) return nvrtcGetPTX(program, cubin);
  return real ? real(program, cubin) : kInternalError;
}

EXPORT int nvrtcDestroyProgram(void **program) {
  static auto *const real = find<int(void **)>("nvrtcDestroyProgram");
  if (!real) return kInternalError;
  if (program) {
    std::lock_guard guard(mutex);
    retargeted.erase(*program);
  }
  return real(program);
}

FORWARD(nvrtcVersion, (int *major, int *minor), (major, minor))
FORWARD(nvrtcGetNumSupportedArchs, (int *count), (count))
FORWARD(nvrtcGetSupportedArchs, (int *list), (list))
FORWARD(nvrtcCreateProgram,
        (void **program, const char *source, const char *name, int headers,
         const char *const *sources, const char *const *names),
        (program, source, name, headers, sources, names))
FORWARD(nvrtcAddNameExpression, (void *program, const char *name), (program, name))
FORWARD(nvrtcGetLoweredName, (void *program, const char *name, const char **lowered),
        (program, name, lowered))
FORWARD(nvrtcGetProgramLogSize, (void *program, size_t *size), (program, size))
FORWARD(nvrtcGetProgramLog, (void *program, char *log), (program, log))
FORWARD(nvrtcGetLTOIRSize, (void *program, size_t *size), (program, size))
FORWARD(nvrtcGetLTOIR, (void *program, char *code), (program, code))
FORWARD(nvrtcGetOptiXIRSize, (void *program, size_t *size), (program, size))
FORWARD(nvrtcGetOptiXIR, (void *program, char *code), (program, code))
FORWARD(nvrtcGetPCHHeapSize, (size_t * size), (size))
FORWARD(nvrtcSetPCHHeapSize, (size_t size), (size))
FORWARD(nvrtcGetPCHHeapSizeRequired, (void *program, size_t *size), (program, size))
FORWARD(nvrtcGetPCHCreateStatus, (void *program), (program))
FORWARD(nvrtcSetFlowCallback, (void *program, int (*callback)(void *, void *), void *payload),
        (program, callback, payload))
