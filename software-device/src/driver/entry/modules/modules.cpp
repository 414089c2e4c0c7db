// Entry points: modules.
#include "entry/entry.h"
#include "entry/modules/load.h"
#include "modules/module.h"

using namespace softdev::driver;

namespace {

CUresult load(CUmodule *handle, const void *image, size_t limit, const JitLog &jit) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle || !image || !jit.complete()) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    Image chosen;
    std::string reason;
    const Device &device = context->device();
    auto module = std::make_shared<Module>();
    CUresult result = chosen.choose(image, limit, device.compute_major, device.compute_minor,
                                    cubin_use(), &reason);
    if (result == CUDA_SUCCESS)
      result = Instance::load(chosen, context, nullptr, &module->instance, &reason);
    if (result != CUDA_SUCCESS) return report_load_failure(result, reason, jit);
    report_load_success(jit);
    module->instance->module = driver()->handles.add(module);
    context->own(module->handle());
    *handle = as_handle<CUmodule>(*module);
    return CUDA_SUCCESS;
  });
}

CUresult find(CUmodule handle, std::shared_ptr<Module> *module) {
  if (CUresult bad = enter()) return bad;
  *module = driver()->handles.find<Module>(handle);
  if (!*module)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no module", static_cast<void *>(handle));
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return load(module, image, ABI_NO_LIMIT, {});
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                            CUjit_option *options, void **values) {
  return load(module, image, ABI_NO_LIMIT, {options, values, count});
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  return load(module, image, ABI_NO_LIMIT, {});
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
  return guarded([&]() -> CUresult {
    std::vector<uint8_t> bytes;
    if (CUresult bad = enter()) return bad;
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult bad = read_image_file(path, &bytes)) return bad;
    return load(module, bytes.data(), bytes.size(), {});
  });
}

CUresult cuModuleUnload(CUmodule handle) {
  std::shared_ptr<Module> module;
  if (CUresult bad = find(handle, &module)) return bad;
  if (module->of_library)
    return refuse(CUDA_ERROR_NOT_PERMITTED, "the module belongs to a library");
  if (!driver()->handles.remove<Module>(handle)) return CUDA_ERROR_INVALID_HANDLE;
  module->instance->context()->disown(module->handle());
  module->instance->unload();
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name) {
  std::shared_ptr<Module> module;
  if (CUresult bad = find(handle, &module)) return bad;
  if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    softdev::Kernel *kernel = module->instance->program().find_kernel(name);
    if (!kernel) return refuse(CUDA_ERROR_NOT_FOUND, "the module has no kernel %s", name);
    *function = as_handle<CUfunction>(*module->instance->function(kernel));
    module->instance->use(kernel);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule handle) {
  std::shared_ptr<Module> module;
  if (CUresult bad = find(handle, &module)) return bad;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->instance->program().kernels().size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned int room, CUmodule handle) {
  std::shared_ptr<Module> module;
  if (CUresult bad = find(handle, &module)) return bad;
  if (!out || !room) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    std::vector<softdev::Kernel *> kernels = module->instance->program().kernels();
    for (size_t i = 0; i < kernels.size() && i < room; i++)
      out[i] = as_handle<CUfunction>(*module->instance->function(kernels[i]));
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule handle,
                              const char *name) {
  std::shared_ptr<Module> module;
  if (CUresult bad = find(handle, &module)) return bad;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  return find_variable(*module->instance, name, false, address, size);
}

}  // extern "C"
