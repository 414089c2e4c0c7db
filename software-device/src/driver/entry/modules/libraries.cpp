// Entry points: libraries and their kernels.
#include <cstdio>

#include "entry/entry.h"
#include "entry/modules/load.h"
#include "modules/module.h"

using namespace softdev::driver;

namespace {

CUresult find(CUlibrary handle, std::shared_ptr<Library> *library) {
  if (CUresult bad = enter()) return bad;
  *library = driver()->handles.find<Library>(handle);
  if (!*library)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no library", static_cast<void *>(handle));
  return CUDA_SUCCESS;
}

CUresult load(CUlibrary *handle, const void *code, size_t limit, const JitLog &jit) {
  if (CUresult bad = enter()) return bad;
  if (!handle || !code || !jit.complete()) return CUDA_ERROR_INVALID_VALUE;
  auto library = std::make_shared<Library>();
  std::string reason;
  const Device &device = *driver()->devices.front();
  CUresult result = library->image.choose(code, limit, device.compute_major, device.compute_minor,
                                          cubin_use(), &reason);
  // Where a context is current, the code is looked at now: a program learns of bad PTX here and
  // not at its first launch.
  const bool lazy = driver()->settings.traits.lazy_loading;
  auto context = driver()->handles.find<Context>(ContextStack::top());
  std::shared_ptr<Instance> instance;
  if (lazy)
    library->messages = jit.error_buffer();
  else if (result == CUDA_SUCCESS && context && context->active())
    result = library->instance(context, &instance, &reason);
  if (result != CUDA_SUCCESS) return report_load_failure(result, reason, jit);
  report_load_success(jit);
  *handle = reinterpret_cast<CUlibrary>(driver()->handles.add(library));
  return CUDA_SUCCESS;
}

// The runtime asks for managed variables when it starts, before any context is current: they are
// placed then in the primary context that it is about to use.
std::shared_ptr<Context> home_of_managed() {
  auto current = driver()->handles.find<Context>(ContextStack::top());
  return current ? current : driver()->devices.front()->primary;
}

CUresult find_variable(CUdeviceptr *address, size_t *size, CUlibrary handle, const char *name,
                       bool managed) {
  std::shared_ptr<Library> library;
  if (CUresult bad = find(handle, &library)) return bad;
  std::shared_ptr<Context> context;
  if (managed)
    context = home_of_managed();
  else if (CUresult bad = enter(&context))
    return bad;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Instance> instance;
  std::string reason;
  if (CUresult bad = library->instance(context, &instance, &reason))
    return refuse(bad, "%s", reason.c_str());
  return find_variable(*instance, name, managed, address, size);
}

}  // namespace

extern "C" {

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                           void **values, unsigned int count, CUlibraryOption *, void **,
                           unsigned int) {
  return guarded([&] { return load(library, code, ABI_NO_LIMIT, {options, values, count}); });
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options,
                               void **values, unsigned int count, CUlibraryOption *, void **,
                               unsigned int) {
  return guarded([&]() -> CUresult {
    std::vector<uint8_t> bytes;
    if (CUresult bad = read_image_file(path, &bytes)) return bad;
    return load(library, bytes.data(), bytes.size(), {options, values, count});
  });
}

CUresult cuLibraryUnload(CUlibrary handle) {
  if (CUresult bad = enter()) return bad;
  auto library = driver()->handles.remove<Library>(handle);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  library->unload();
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary handle, const char *name) {
  std::shared_ptr<Library> library;
  if (CUresult bad = find(handle, &library)) return bad;
  if (!kernel || !name) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    std::shared_ptr<LibraryKernel> found;
    std::string reason;
    if (CUresult bad = library->kernel(name, &found, &reason))
      return refuse(bad, "%s", reason.c_str());
    *kernel = as_handle<CUkernel>(*found);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle) {
  std::shared_ptr<Library> library;
  if (CUresult bad = find(handle, &library)) return bad;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    std::vector<std::shared_ptr<LibraryKernel>> kernels;
    std::string reason;
    if (CUresult bad = library->kernels(&kernels, &reason))
      return refuse(bad, "%s", reason.c_str());
    *count = static_cast<unsigned>(kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned int room, CUlibrary handle) {
  std::shared_ptr<Library> library;
  if (CUresult bad = find(handle, &library)) return bad;
  if (!out || !room) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    std::vector<std::shared_ptr<LibraryKernel>> kernels;
    std::string reason;
    if (CUresult bad = library->kernels(&kernels, &reason))
      return refuse(bad, "%s", reason.c_str());
    for (size_t i = 0; i < kernels.size() && i < room; i++)
      out[i] = as_handle<CUkernel>(*kernels[i]);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary handle) {
  std::shared_ptr<Library> library;
  if (CUresult bad = find(handle, &library)) return bad;
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    std::shared_ptr<Instance> instance;
    std::string reason;
    if (CUresult bad = library->instance(context, &instance, &reason))
      return refuse(bad, "%s", reason.c_str());
    *module = reinterpret_cast<CUmodule>(instance->module);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library,
                            const char *name) {
  return guarded([&] { return find_variable(address, size, library, name, false); });
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUlibrary library,
                             const char *name) {
  return guarded([&] { return find_variable(address, size, library, name, true); });
}

}  // extern "C"
