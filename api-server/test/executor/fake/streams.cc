// Copies, fills, streams and events.
#include <chrono>
#include <thread>
#include <utility>

#include "device.h"

using namespace fake;

namespace {

CUresult fill(uint64_t to, const void *pattern, size_t size, size_t count, CUstream stream) {
  std::string bytes(static_cast<const char *>(pattern), size);
  size_t all;
  if (__builtin_mul_overflow(size, count, &all)) return CUDA_ERROR_INVALID_VALUE;
  return queue(stream, [=] {
    if (!touch(to, all)) return;
    if (size == 1 && count > 0) memset(at(to), bytes[0], count);
    for (size_t i = 0; size > 1 && i < count; i++) memcpy(at(to + i * size), bytes.data(), size);
  });
}

CUresult fill_2d(uint64_t to, size_t pitch, const void *pattern, size_t size, size_t width,
                 size_t height, CUstream stream) {
  size_t row;
  if (__builtin_mul_overflow(size, width, &row)) return CUDA_ERROR_INVALID_VALUE;
  if (height > 1 && row > pitch) return CUDA_ERROR_INVALID_VALUE;
  if (row == 0) return CUDA_SUCCESS;
  std::string bytes(static_cast<const char *>(pattern), size);
  return queue(stream, [=] {
    for (size_t y = 0; y < height; y++) {
      if (!touch(to + y * pitch, row)) return;
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
    if (size > 0) memmove(at(to), at(from), size);
  });
}

}  // namespace

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

// ---- streams and events
// ----------------------------------------------------------------------------

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
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  ENTER;
  return queue(stream, nullptr, kNoGate, {}, function, data);
}
EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
                                    unsigned) {
  ENTER;
  struct Told {
    CUstream stream;
    CUstreamCallback callback;
    void *data;
  };
  const auto tell = [](void *given) {
    const std::unique_ptr<Told> told(static_cast<Told *>(given));
    Lock status_lock(mutex);
    const CUresult status = sticky;
    status_lock.unlock();
    told->callback(told->stream, status, told->data);
  };
  return queue(stream, nullptr, kNoGate, {}, tell, new Told{stream, callback, data}, true);
}
EXPORT CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID, const CUstreamAttrValue *) {
  ENTER;
  return streams.count(real(stream)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
namespace {
// Words may lie in pinned memory, too.
bool touch_word(uint64_t address, size_t width) {
  const auto next = pinned.upper_bound(at(address));
  if (next != pinned.begin()) {
    const auto &[start, size] = *std::prev(next);
    if (address + width <= reinterpret_cast<uint64_t>(start) + size) return true;
  }
  return touch(address, width);
}
// Whether a wait is over; what is gone is not waited for.
bool is_over(const CUstreamBatchMemOpParams &e, size_t width) {
  if (!touch_word(e.waitValue.address, width)) return true;
  uint64_t now = 0;
  if (width == 8)
    now = __atomic_load_n(reinterpret_cast<uint64_t *>(fake::at(e.waitValue.address)),
                          __ATOMIC_ACQUIRE);
  else
    now = __atomic_load_n(reinterpret_cast<uint32_t *>(fake::at(e.waitValue.address)),
                          __ATOMIC_ACQUIRE);
  const uint64_t mask = width == 8 ? ~uint64_t{0} : 0xffffffff;
  const uint64_t wanted = e.waitValue.value64 & mask;
  switch (e.waitValue.flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return width == 8 ? static_cast<int64_t>(now - wanted) >= 0
                        : static_cast<int32_t>(now - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & wanted) != 0;
    default:
      return (~(now | wanted) & mask) != 0;
  }
}
// Nobody tells that the host has written a word that a stream waits for.
void look_at_words() {
  static bool looks = false;
  if (std::exchange(looks, true)) return;
  std::thread([] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      Lock lock(mutex);
      advance();
    }
  }).detach();
}
}  // namespace
// One operation each.
EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                                      CUstreamBatchMemOpParams *entries, unsigned) {
  ENTER;
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
    const CUstreamBatchMemOpParams e = entries[i];
    const bool waits = e.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                       e.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    const bool wide = e.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                      e.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    const size_t width = wide ? 8 : 4;
    if (waits) look_at_words();
    result = queue(
        stream,
        [=] {
          if (waits || !touch_word(e.writeValue.address, width)) return;
          if (width == 8)
            __atomic_store_n(reinterpret_cast<uint64_t *>(fake::at(e.writeValue.address)),
                             e.writeValue.value64, __ATOMIC_RELEASE);
          else
            __atomic_store_n(reinterpret_cast<uint32_t *>(fake::at(e.writeValue.address)),
                             e.writeValue.value, __ATOMIC_RELEASE);
        },
        kNoGate, {}, nullptr, nullptr, false,
        waits ? std::function<bool()>([=] { return is_over(e, width); }) : nullptr);
  }
  return result;
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
  const auto when = std::make_shared<double>(-1);
  event->when = when;
  const CUresult result = queue(stream, [when] { *when = clock_ms; });
  if (result != CUDA_SUCCESS) return result;
  event->stream = real(stream);
  event->position = real(stream)->queued;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  return cuEventRecord(event, stream);
}
// Of all streams: as those that the legacy one waits for, and it is the one that this is about.
EXPORT CUresult cuCtxRecordEvent(CUcontext, CUevent event) {
  { ENTER; }
  return cuEventRecord(event, nullptr);
}
EXPORT CUresult cuCtxWaitEvent(CUcontext, CUevent event) {
  { ENTER; }
  return cuStreamWaitEvent(nullptr, event, 0);
}
EXPORT CUresult cuEventQuery(CUevent event) {
  ENTER;
  if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
  return finished({event->stream, event->position}) ? sticky : CUDA_ERROR_NOT_READY;
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
  for (CUevent event : {start, end}) {
    if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (!finished({event->stream, event->position})) return CUDA_ERROR_NOT_READY;
  }
  const bool stamped = start->when && end->when && *start->when >= 0 && *end->when >= 0;
  *milliseconds = stamped ? static_cast<float>(*end->when - *start->when) : 1.5f;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  { ENTER; }
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

// Events of other processes are made up: what counts is what the executor does with them.
EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) {
  ENTER;
  if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
  memset(handle, 7, sizeof *handle);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle) {
  ENTER;
  if (handle.reserved[0] != 7) return CUDA_ERROR_INVALID_HANDLE;
  auto made = std::make_unique<CUevent_st>();
  *event = made.get();
  events[*event] = std::move(made);
  return CUDA_SUCCESS;
}
