#include "fake_driver.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct CUstream_st {
  bool blocking = true;
  uint64_t queued = 0;    // operations so far
  uint64_t finished = 0;  // of them
  bool doomed = false;    // destroyed, but not finished
};
struct CUevent_st {
  CUstream stream = nullptr;
  uint64_t position = 0;
};
struct CUkern_st {
  std::string name;
  std::vector<std::pair<size_t, size_t>> parameters;
  size_t bytes = 0;
};
struct CUlib_st {
  std::vector<std::unique_ptr<CUkern_st>> kernels;
  std::map<std::string, std::pair<void *, size_t>> globals;
};

namespace {

// What an operation comes after: so many operations of a stream.
struct After {
  CUstream stream;
  uint64_t position;
};

struct Operation {
  CUstream stream;
  std::vector<After> after;
  std::function<void()> run;
  uint32_t gate;
};

struct Failure {
  CUresult result;
  unsigned skip;
};

struct Memory {
  int fd;
  uint64_t size;
};

constexpr uint32_t kNoGate = UINT32_MAX;

// Never destroyed: a test may end while threads wait here.
template <class T>
T &eternal(T value = {}) {
  return *new T(std::move(value));
}

std::mutex &mutex = *new std::mutex;
std::condition_variable &changed = *new std::condition_variable;
CUstream_st legacy_stream;
auto &streams = eternal<std::set<CUstream>>({&legacy_stream});
auto &operations = eternal<std::deque<Operation>>();
auto &open_gates = eternal<std::set<uint32_t>>();
auto &failures = eternal<std::map<std::string, Failure>>();
auto &call_counts = eternal<std::map<std::string, unsigned>>();
auto &memories = eternal<std::map<uint64_t, Memory>>();        // by handle
auto &mappings = eternal<std::map<uint64_t, uint64_t>>();      // address to handle
auto &reservations = eternal<std::map<uint64_t, uint64_t>>();  // address to size
auto &events = eternal<std::map<CUevent, std::unique_ptr<CUevent_st>>>();
auto &libraries = eternal<std::set<CUlibrary>>();
auto &pinned = eternal<std::map<void *, size_t>>();
auto &limits = eternal<std::map<int, size_t>>({{0, 1024}, {1, 1 << 20}, {2, 8 << 20}});
uint64_t next_memory = 1;
uint64_t memory_total = uint64_t{8} << 30;
uint64_t memory_used = 0;
unsigned dirty = 0;
CUresult sticky = CUDA_SUCCESS;
bool tamed = false;

using Lock = std::unique_lock<std::mutex>;

CUresult enter(const char *function) {
  ++call_counts[function];
  auto failure = failures.find(function);
  if (failure == failures.end()) return sticky;
  if (failure->second.skip-- > 0) return sticky;
  const CUresult result = failure->second.result;
  failures.erase(failure);
  return result;
}

#define ENTER       \
  Lock lock(mutex); \
  if (CUresult failed = enter(__func__); failed != CUDA_SUCCESS) return failed

CUstream real(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY ? &legacy_stream : stream;
}

bool finished(const After &after) {
  return !streams.count(after.stream) || after.stream->finished >= after.position;
}

void forget(CUstream stream) {
  streams.erase(stream);
  for (auto &[event, state] : events) {
    if (state->stream == stream) state->stream = nullptr;
  }
  for (Operation &operation : operations) {
    std::erase_if(operation.after, [&](const After &a) { return a.stream == stream; });
  }
  delete stream;
}

// Runs what can run, in the order in which it came.
void advance() {
  for (bool progress = true; progress;) {
    progress = false;
    for (auto at = operations.begin(); at != operations.end(); ++at) {
      const bool behind = std::any_of(operations.begin(), at, [&](const Operation &earlier) {
        return earlier.stream == at->stream;
      });
      if (behind || !std::all_of(at->after.begin(), at->after.end(), finished)) continue;
      if (at->gate != kNoGate && !tamed && sticky == CUDA_SUCCESS && !open_gates.count(at->gate))
        continue;
      const Operation operation = *at;
      operations.erase(at);
      if (sticky == CUDA_SUCCESS && operation.run) operation.run();
      CUstream stream = operation.stream;
      if (++stream->finished == stream->queued && stream->doomed) forget(stream);
      progress = true;
      break;
    }
  }
  changed.notify_all();
}

CUresult queue(CUstream given, std::function<void()> run, uint32_t gate = kNoGate,
               std::vector<After> after = {}) {
  CUstream stream = real(given);
  if (!streams.count(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == &legacy_stream) {
    for (CUstream other : streams) {
      if (other->blocking && other != stream) after.push_back({other, other->queued});
    }
  } else if (stream->blocking) {
    after.push_back({&legacy_stream, legacy_stream.queued});
  }
  ++stream->queued;
  operations.push_back({stream, std::move(after), std::move(run), gate});
  advance();
  return CUDA_SUCCESS;
}

bool mapped(uint64_t address, uint64_t size) {
  while (size > 0) {
    auto next = mappings.upper_bound(address);
    if (next == mappings.begin()) break;
    --next;
    const uint64_t length = memories[next->second].size;
    if (address - next->first >= length) break;
    const uint64_t here = std::min(size, length - (address - next->first));
    address += here;
    size -= here;
  }
  if (size == 0) return true;
  for (CUlibrary library : libraries) {
    for (const auto &[name, global] : library->globals) {
      const auto start = reinterpret_cast<uint64_t>(global.first);
      if (address >= start && address - start <= global.second &&
          size <= global.second - (address - start)) {
        return true;
      }
    }
  }
  return false;
}

void *at(uint64_t address) { return reinterpret_cast<void *>(address); }

// Touching device memory outside of what is mapped is what ends a context.
bool touch(uint64_t address, uint64_t size, bool by_kernel = false) {
  if (mapped(address, size)) return true;
  if (!tamed) {
    sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  } else if (!by_kernel) {
    fprintf(stderr, "fake driver: a copy touches %#" PRIx64 ", which is not mapped\n", address);
    abort();
  }
  return false;
}

bool all_zero(int fd, uint64_t size) {
  void *view = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (view == MAP_FAILED) abort();
  const auto *bytes = static_cast<const unsigned char *>(view);
  const bool zero = bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
  munmap(view, size);
  return zero;
}

CUresult fill(uint64_t to, const void *pattern, size_t size, size_t count, CUstream stream) {
  std::string bytes(static_cast<const char *>(pattern), size);
  return queue(stream, [=] {
    if (!touch(to, size * count)) return;
    if (size == 1) memset(at(to), bytes[0], count);
    for (size_t i = 0; size > 1 && i < count; i++) memcpy(at(to + i * size), bytes.data(), size);
  });
}

CUresult fill_2d(uint64_t to, size_t pitch, const void *pattern, size_t size, size_t width,
                 size_t height, CUstream stream) {
  if (height > 1 && size * width > pitch) return CUDA_ERROR_INVALID_VALUE;
  std::string bytes(static_cast<const char *>(pattern), size);
  return queue(stream, [=] {
    for (size_t y = 0; y < height; y++) {
      if (!touch(to + y * pitch, size * width)) return;
      for (size_t x = 0; x < width; x++) {
        memcpy(at(to + y * pitch + x * size), bytes.data(), size);
      }
    }
  });
}

CUresult copy(uint64_t to, uint64_t from, size_t size, CUstream stream, bool check_to,
              bool check_from) {
  return queue(stream, [=] {
    if (check_to && !touch(to, size)) return;
    if (check_from && !touch(from, size)) return;
    memmove(at(to), at(from), size);
  });
}

}  // namespace

// ---- the library, devices, the context ---------------------------------------------------------

EXPORT CUresult cuInit(unsigned) {
  ENTER;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorName(CUresult, const char **name) {
  *name = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "an error of the fake driver";
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER;
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
EXPORT CUresult cuDeviceGetCount(int *count) {
  ENTER;
  *count = 1;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice) {
  ENTER;
  snprintf(name, static_cast<size_t>(size), "Fake device");
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice) {
  ENTER;
  memset(uuid, 7, sizeof *uuid);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
  ENTER;
  if (attribute == 17) return CUDA_ERROR_INVALID_VALUE;
  *value = static_cast<int>(attribute) * 2;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  ENTER;
  *bytes = memory_total;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice) {
  ENTER;
  snprintf(text, static_cast<size_t>(size), "0000:42:00.0");
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  ENTER;
  *context = reinterpret_cast<CUcontext>(&legacy_stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  ENTER;
  if (!limits.count(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = limits[limit];
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  ENTER;
  if (!limits.count(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  limits[limit] = value;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER;
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize() {
  ENTER;
  changed.wait(lock, [] { return operations.empty(); });
  return sticky;
}

// ---- memory ------------------------------------------------------------------------------------

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER;
  *free = memory_total - memory_used;
  *total = memory_total;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t, CUdeviceptr hint,
                                    unsigned long long) {
  ENTER;
  void *view =
      mmap(at(hint), size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (hint ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (view == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<uint64_t>(view);
  reservations[*address] = size;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  ENTER;
  if (reservations.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  munmap(at(address), size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *, unsigned long long) {
  ENTER;
  if (size > memory_total - memory_used) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = memfd_create("fake", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  memory_used += size;
  *handle = next_memory++;
  memories[*handle] = {fd, size};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER;
  auto found = memories.find(handle);
  if (found == memories.end()) return CUDA_ERROR_INVALID_VALUE;
  if (!all_zero(found->second.fd, found->second.size)) ++dirty;
  memory_used -= found->second.size;
  close(found->second.fd);
  memories.erase(found);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t,
                         CUmemGenericAllocationHandle handle, unsigned long long) {
  ENTER;
  auto found = memories.find(handle);
  if (found == memories.end() || mappings.count(address)) return CUDA_ERROR_INVALID_VALUE;
  void *view =
      mmap(at(address), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, found->second.fd, 0);
  if (view == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  mappings[address] = handle;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  ENTER;
  if (mappings.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  mmap(at(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t) {
  ENTER;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void **memory, size_t size, unsigned) {
  ENTER;
  *memory = aligned_alloc(4096, (size + 4095) & ~size_t{4095});
  pinned[*memory] = size;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeHost(void *memory) {
  Lock lock(mutex);
  pinned.erase(memory);
  free(memory);
  return CUDA_SUCCESS;
}

// ---- copies and fills --------------------------------------------------------------------------

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size,
                                     CUstream stream) {
  ENTER;
  return copy(to, reinterpret_cast<uint64_t>(from), size, stream, true, false);
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  ENTER;
  return copy(reinterpret_cast<uint64_t>(to), from, size, stream, false, true);
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size,
                                     CUstream stream) {
  ENTER;
  return copy(to, from, size, stream, true, true);
}
EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *given, CUstream stream) {
  ENTER;
  const CUDA_MEMCPY2D c = *given;
  if (c.WidthInBytes > c.dstPitch || c.WidthInBytes > c.srcPitch) return CUDA_ERROR_INVALID_VALUE;
  return queue(stream, [c] {
    for (size_t y = 0; y < c.Height; y++) {
      const uint64_t to = c.dstDevice + y * c.dstPitch;
      const uint64_t from = c.srcDevice + y * c.srcPitch;
      if (!touch(to, c.WidthInBytes) || !touch(from, c.WidthInBytes)) return;
      memmove(at(to), at(from), c.WidthInBytes);
    }
  });
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
  ENTER;
  return fill(to, &value, 1, n, stream);
}
EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream stream) {
  ENTER;
  return fill(to, &value, 2, n, stream);
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
  ENTER;
  return fill(to, &value, 4, n, stream);
}
EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                  size_t height, CUstream stream) {
  ENTER;
  return fill_2d(to, pitch, &value, 1, width, height, stream);
}
EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                   size_t height, CUstream stream) {
  ENTER;
  return fill_2d(to, pitch, &value, 2, width, height, stream);
}
EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                                   size_t height, CUstream stream) {
  ENTER;
  return fill_2d(to, pitch, &value, 4, width, height, stream);
}

// ---- streams and events ------------------------------------------------------------------------

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) {
  ENTER;
  *stream = new CUstream_st;
  (*stream)->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  streams.insert(*stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  Lock lock(mutex);
  enter(__func__);
  if (stream == &legacy_stream || !streams.count(stream)) return CUDA_ERROR_INVALID_HANDLE;
  stream->doomed = true;
  if (stream->finished == stream->queued) forget(stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
  ENTER;
  *flags = real(stream)->blocking ? 0 : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamQuery(CUstream stream) {
  ENTER;
  if (!streams.count(real(stream))) return CUDA_ERROR_INVALID_HANDLE;
  return real(stream)->finished == real(stream)->queued ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORT CUresult cuStreamSynchronize(CUstream given) {
  ENTER;
  CUstream stream = real(given);
  if (!streams.count(stream)) return CUDA_ERROR_INVALID_HANDLE;
  const uint64_t position = stream->queued;
  changed.wait(lock, [&] { return finished({stream, position}); });
  return sticky;
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER;
  if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (!event->stream) return CUDA_SUCCESS;
  return queue(stream, nullptr, kNoGate, {{event->stream, event->position}});
}
EXPORT CUresult cuEventCreate(CUevent *event, unsigned) {
  ENTER;
  auto made = std::make_unique<CUevent_st>();
  *event = made.get();
  events[*event] = std::move(made);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  Lock lock(mutex);
  enter(__func__);
  return events.erase(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  ENTER;
  if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
  // An operation of its own: on the legacy stream it comes after those of others.
  const CUresult result = queue(stream, nullptr);
  if (result != CUDA_SUCCESS) return result;
  event->stream = real(stream);
  event->position = real(stream)->queued;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  return cuEventRecord(event, stream);
}
EXPORT CUresult cuEventQuery(CUevent event) {
  ENTER;
  if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
  return finished({event->stream, event->position}) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORT CUresult cuEventSynchronize(CUevent event) {
  ENTER;
  if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
  const After after = {event->stream, event->position};
  changed.wait(lock, [&] { return finished(after); });
  return sticky;
}
EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  ENTER;
  if (!events.count(start) || !events.count(end)) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = 1.5f;
  return CUDA_SUCCESS;
}

// ---- modules and launches ----------------------------------------------------------------------

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *, void **,
                                  unsigned, CUlibraryOption *, void **, unsigned) {
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
        if (size != 4 && size != 8) return CUDA_ERROR_INVALID_PTX;
        kernel->bytes = (kernel->bytes + size - 1) & ~(size - 1);
        kernel->parameters.push_back({kernel->bytes, size});
        kernel->bytes += size;
      }
      made->kernels.push_back(std::move(kernel));
    } else if (what == "global") {
      size_t size = 0;
      if (!(words >> size) || size == 0 || size > 1 << 20) return CUDA_ERROR_INVALID_PTX;
      if (!made->globals.count(name)) made->globals[name] = {calloc(1, size), size};
    } else if (!what.empty()) {
      for (auto &[unused, global] : made->globals) free(global.first);
      return CUDA_ERROR_INVALID_PTX;
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
  for (auto &[name, global] : library->globals) free(global.first);
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

// ---- controls ----------------------------------------------------------------------------------

extern "C" {
extern __attribute__((visibility("default"))) const FakeControls fake_controls;
const FakeControls fake_controls = {
    .open_gate =
        [](uint32_t number) {
          Lock lock(mutex);
          open_gates.insert(number);
          advance();
        },
    .tame =
        [] {
          Lock lock(mutex);
          tamed = true;
          advance();
        },
    .await_gate =
        [](uint32_t number) {
          Lock lock(mutex);
          changed.wait(lock, [&] {
            return std::any_of(operations.begin(), operations.end(),
                               [&](const Operation &o) { return o.gate == number; });
          });
        },
    .fail =
        [](const char *function, CUresult result, unsigned skip) {
          Lock lock(mutex);
          failures[function] = {result, skip};
        },
    .reset =
        [] {
          Lock lock(mutex);
          failures.clear();
          call_counts.clear();
          sticky = CUDA_SUCCESS;
          memory_total = uint64_t{8} << 30;
          for (const Operation &o : operations) {
            if (o.gate != kNoGate) open_gates.insert(o.gate);
          }
          advance();
          open_gates.clear();
        },
    .live =
        [] {
          Lock lock(mutex);
          return FakeLive{
              static_cast<unsigned>(streams.size() - 1), static_cast<unsigned>(events.size()),
              static_cast<unsigned>(libraries.size()), static_cast<unsigned>(mappings.size()),
              static_cast<unsigned>(pinned.size())};
        },
    .dirty_releases =
        [] {
          Lock lock(mutex);
          return dirty;
        },
    .calls =
        [](const char *function) {
          Lock lock(mutex);
          return call_counts[function];
        },
    .set_memory =
        [](uint64_t bytes) {
          Lock lock(mutex);
          memory_total = bytes;
        },
};
}  // extern "C"
