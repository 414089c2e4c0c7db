#include "libraries/cublas.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/library_at_work.h"

namespace outboard {

namespace {

// Every function takes whole words and addresses only, and no more than this many with its handle:
// one that takes fewer does not see the rest (calling conventions of x86-64 and of arm64).
using Function = int (*)(void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t);

void *load(const std::string &folder, const char *name) {
  const std::string path = folder.empty() ? name : folder + "/" + name;
  void *library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library) return library;
  const char *why = dlerror();
  throw Error("OB_LIBRARIES", path + " cannot be loaded: " + (why ? why : "no reason given"));
}

}  // namespace

std::shared_ptr<const Cublas> Cublas::open(const std::string &folder) {
  // First, as the other finds it by its name then.
  void *lt = load(folder, "libcublasLt.so.13");
  void *library = load(folder, "libcublas.so.13");
  std::shared_ptr<Cublas> cublas(new Cublas);
  if (!cublas->lt_.open(lt)) throw Error("OB_LIBRARIES", "libcublasLt.so.13 there is not NVIDIA's");
  for (uint32_t i = 0; i < CUBLAS_CALL_COUNT; i++)
    cublas->functions_[i] = dlsym(library, cublas_calls[i].name);
  *reinterpret_cast<void **>(&cublas->set_pointer_mode_) =
      dlsym(library, "cublasSetPointerMode_v2");
  int (*property)(int, int *) = nullptr;
  *reinterpret_cast<void **>(&property) = dlsym(library, "cublasGetProperty");
  const bool whole = cublas->set_pointer_mode_ && property && cublas->has(CUBLAS_cublasCreate_v2) &&
                     cublas->has(CUBLAS_cublasDestroy_v2) && cublas->has(CUBLAS_cublasSetStream_v2);
  if (!whole) throw Error("OB_LIBRARIES", "libcublas.so.13 there is not NVIDIA's");
  int numbers[3] = {};
  for (int i = 0; i < 3; i++) property(i, &numbers[i]);
  cublas->version_ = numbers[0] * 10000 + numbers[1] * 100 + numbers[2];
  return cublas;
}

void *Cublas::create(int *status) const {
  void *handle = nullptr;
  *status = reinterpret_cast<int (*)(void **)>(functions_[CUBLAS_cublasCreate_v2])(&handle);
  return *status == kCublasSuccess ? handle : nullptr;
}

int Cublas::destroy(void *handle) const {
  // The stream that it has may be gone.
  set_stream(handle, nullptr);
  return reinterpret_cast<int (*)(void *)>(functions_[CUBLAS_cublasDestroy_v2])(handle);
}

int Cublas::set_stream(void *handle, CUstream stream) const {
  return reinterpret_cast<int (*)(void *, CUstream)>(functions_[CUBLAS_cublasSetStream_v2])(handle,
                                                                                            stream);
}

int Cublas::set_mode(void *handle, uint32_t mode) const {
  return set_pointer_mode_(handle, static_cast<int>(mode));
}

int Cublas::call(uint32_t function, void *handle, const uint64_t *a) const {
  if (!has(function)) return kCublasNotSupported;
  static_assert(LIBRARY_PARAMETERS_MAX == 24);
  const LibraryAtWork at_work;
  return reinterpret_cast<Function>(functions_[function])(
      handle, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12],
      a[13], a[14], a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22], a[23]);
}

}  // namespace outboard
