// Modules, functions and launches.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "device.h"

using namespace fake;

static CUresult drop(CUlib_st &library, CUresult result) {
  for (auto &[name, global] : library.globals) {
    memory_used -= global.second;
    free(global.first);
  }
  library.globals.clear();
  return result;
}

// Says what is wrong in the buffer for errors.
static CUresult complain(CUjit_option *options, void **values, unsigned count,
                         const std::string &line) {
  char *buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char *>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      room = reinterpret_cast<size_t>(values[i]);
    }
  }
  if (buffer && room) snprintf(buffer, room, "not understood: %s", line.c_str());
  return CUDA_ERROR_INVALID_PTX;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                                  void **values, unsigned count, CUlibraryOption *, void **,
                                  unsigned) {
  ENTER;
  std::istringstream text(static_cast<const char *>(code));
  auto made = std::make_unique<CUlib_st>();
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string what, name;
    words >> what >> name;
    if (what == "kernel") {
      auto kernel = std::make_unique<CUkern_st>();
      kernel->name = name;
      for (size_t size; words >> size;) {
        if (size != 4 && size != 8) return drop(*made, CUDA_ERROR_INVALID_PTX);
        kernel->bytes = (kernel->bytes + size - 1) & ~(size - 1);
        kernel->parameters.push_back({kernel->bytes, size});
        kernel->bytes += size;
      }
      made->kernels.push_back(std::move(kernel));
    } else if (what == "global") {
      size_t size = 0;
      if (!(words >> size) || size == 0 || size > 1 << 30)
        return drop(*made, CUDA_ERROR_INVALID_PTX);
      if (made->globals.count(name)) continue;
      if (size > memory_total - memory_used) return drop(*made, CUDA_ERROR_OUT_OF_MEMORY);
      memory_used += size;
      made->globals[name] = {calloc(1, size), size};
    } else if (!what.empty() && what[0] != '.') {
      return drop(*made, complain(options, values, count, line));
    }
  }
  *library = made.release();
  libraries.insert(*library);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  Lock lock(mutex);
  enter(__func__);
  if (!libraries.erase(library)) return CUDA_ERROR_INVALID_HANDLE;
  drop(*library, CUDA_SUCCESS);
  delete library;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
  ENTER;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library) {
  ENTER;
  for (unsigned i = 0; i < count; i++) kernels[i] = library->kernels.at(i).get();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  ENTER;
  for (const auto &candidate : library->kernels) {
    if (candidate->name != name) continue;
    *kernel = candidate.get();
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library,
                                   const char *name) {
  ENTER;
  auto found = library->globals.find(name);
  if (found == library->globals.end()) return CUDA_ERROR_NOT_FOUND;
  *address = reinterpret_cast<uint64_t>(found->second.first);
  *size = found->second.second;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *, size_t *, CUlibrary, const char *) {
  ENTER;
  return CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  ENTER;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuKernelGetName(const char **name, CUkernel kernel) {
  ENTER;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size) {
  ENTER;
  if (index >= kernel->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel->parameters[index].first;
  *size = kernel->parameters[index].second;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction) {
  ENTER;
  *value = static_cast<int>(static_cast<unsigned>(attribute) + 100);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  ENTER;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  ENTER;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction, int,
                                                                     size_t, unsigned) {
  ENTER;
  *blocks = 3;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction, int, int) {
  ENTER;
  *bytes = 49152;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction,
                                             const CUlaunchConfig *config) {
  ENTER;
  *clusters = static_cast<int>(config->numAttrs) + 4;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int *blocks, CUfunction,
                                                   const CUlaunchConfig *) {
  ENTER;
  *blocks = 8;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid, unsigned, unsigned, unsigned,
                               unsigned, unsigned, unsigned, CUstream stream, void **,
                               void **extra) {
  ENTER;
  if (grid == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto *kernel = reinterpret_cast<const CUkern_st *>(function);
  std::string blob(kernel->bytes, '\0');
  if (kernel->bytes > 0) {
    if (!extra || *static_cast<size_t *>(extra[3]) != kernel->bytes)
      return CUDA_ERROR_INVALID_VALUE;
    memcpy(blob.data(), extra[1], kernel->bytes);
  }
  const auto word = [&](size_t offset) {
    uint64_t value = 0;
    memcpy(&value, blob.data() + offset, std::min<size_t>(8, blob.size() - offset));
    return value;
  };
  if (kernel->name == "gate" && kernel->bytes == 4) {
    return queue(stream, nullptr, static_cast<uint32_t>(word(0)));
  }
  if (kernel->name == "add" && kernel->bytes == 20) {
    return queue(stream, [to = word(0), n = word(8), value = static_cast<uint32_t>(word(16))] {
      if (n > UINT32_MAX || !touch(to, n * 4, true)) return;
      for (uint64_t i = 0; i < n; i++) {
        uint32_t number;
        memcpy(&number, at(to + i * 4), 4);
        number += value;
        memcpy(at(to + i * 4), &number, 4);
      }
    });
  }
  if (kernel->name == "print" && kernel->bytes == 8) {
    return queue(stream, [from = word(0)] {
      if (touch(from, 64, true)) printf("%.63s", static_cast<const char *>(at(from)));
    });
  }
  if (kernel->name == "crash") {
    return queue(stream, [] {
      if (!tamed) sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    });
  }
  return queue(stream, nullptr);
}
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **,
                                 void **extra) {
  return cuLaunchKernel(function, config->gridDimX, 1, 1, 1, 1, 1, 0, config->hStream, nullptr,
                        extra);
}
