// Copies of bytes in a row. To the device they are posted; from the device the caller waits, unless
// the destination is pinned and the call asynchronous: then the data lands when it comes.
#include "copies/copy.h"

#include <string.h>

#include "base/ablation.h"
#include "copies/box.h"
#include "copies/cross_device.h"
#include "copies/late_upload.h"
#include "copies/upload_cache.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "memory/memory_range.h"
#include "pages/merged.h"
#include "session/session.h"
#include "setup/log.h"
#include "streams/pending.h"
#include "streams/recorder.h"
#include "streams/stream.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire/order.h"
#include "wire/region.h"

static CUresult check_host(const void *pointer) {
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  if (!memory_is_device(pointer) || memory_is_shared(pointer)) return CUDA_SUCCESS;
  log_warn("%p is a device pointer where a host pointer belongs", pointer);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_upload(uint64_t destination, const void *source, uint64_t bytes, uint64_t stream) {
  const char *at = host_use(source);
  CUresult result = CUDA_SUCCESS;
  if (region_wants(bytes)) result = region_upload(&destination, &at, &bytes, stream);
  while (bytes && !result) {
    uint64_t part = bytes < WIRE_BULK_MAX ? bytes : WIRE_BULK_MAX;
    result = put_Upload(destination, stream, part, at);
    destination += part;
    at += part;
    bytes -= part;
  }
  host_used();
  return result;
}

static CUresult upload(uint64_t destination, const void *source, uint64_t bytes, uint64_t stream) {
  if (capture_active()) {
    CUresult captured = recorder->bytes(stream, destination, (uint64_t)(uintptr_t)source, bytes);
    if (captured != CAPTURE_NONE) return captured;
  }
  if (bytes && late_is_due(source, bytes)) {
    const struct box_end to = {
        .place = BOX_DEVICE, .address = destination, .pitch = bytes, .rows = 1};
    const struct box_end from = {
        .place = BOX_HOST, .address = (uint64_t)(uintptr_t)source, .pitch = bytes, .rows = 1};
    return late_upload(&to, &from, &(struct box){bytes, 1, 1}, stream);
  }
  return upload_cache_wants(bytes) ? upload_cache_copy(destination, source, bytes, stream)
                                   : copy_upload(destination, source, bytes, stream);
}

// What asks for a download into the program's memory at `to`.
static uint16_t download_command(void *to, uint64_t bytes) {
  const _Bool region = region_wants(bytes) && region_holds(bytes) && region_can_write(to, bytes);
  return region ? WIRE_RegionDownload : WIRE_Download;
}
_Static_assert(sizeof(struct wire_RegionDownload) == sizeof(struct wire_Download),
               "the same question");

// A question to be waited for or deferred; false when it cannot be sent.
static _Bool ask_download(uint16_t command, uint64_t source, uint64_t bytes, uint64_t stream,
                          struct answer *answer) {
  if (command == WIRE_RegionDownload) region_give_back();
  struct wire_Download *frame = batch_ask(command, sizeof *frame, answer);
  if (!frame) return 0;
  frame->source = source;
  frame->length = bytes;
  frame->stream = stream;
  return 1;
}

static CUresult download_wait(void *destination, uint64_t source, uint64_t bytes, uint64_t stream) {
  if (!bytes) return CUDA_SUCCESS;
  struct answer answer;
  answer_init(&answer);
  void *to = host_view(destination);
  answer_into(&answer, to, bytes);
  pages_will_wait();
  if (!ask_download(download_command(to, bytes), source, bytes, stream, &answer))
    return guest_lost();
  CUresult result = batch_wait(&answer, sizeof(struct wire_Download_reply));
  answer_free(&answer);
  if (result) return result;
  stream_operation_settled(stream, answer.sequence);
  pages_have_waited();
  return CUDA_SUCCESS;
}

static CUresult download_defer(void *destination, uint64_t source, uint64_t bytes,
                               uint64_t stream) {
  if (!bytes) return CUDA_SUCCESS;
  struct answer *answer = answer_take_deferred();
  if (!answer) return CUDA_ERROR_OUT_OF_MEMORY;
  answer->deferred = 1;
  void *to = host_use(destination);
  answer_into(answer, to, bytes);
  CUresult result;
  if (ask_download(download_command(to, bytes), source, bytes, stream, answer)) {
    result = batch_defer(stream);
  } else {
    answer_give_back(answer);
    result = guest_lost();
  }
  host_used();
  return result;
}

enum landing copy_landing(const void *destination, uint64_t bytes, _Bool async) {
  return async && host_is_pinned(destination, bytes) && !ablated(ABLATE_DEFERRED)
             ? LANDING_DEFERRED
             : LANDING_WAITED_FOR;
}

CUresult copy_download(void *destination, uint64_t source, uint64_t bytes, uint64_t stream,
                       enum landing landing) {
  return landing == LANDING_DEFERRED ? download_defer(destination, source, bytes, stream)
                                     : download_wait(destination, source, bytes, stream);
}

static CUresult download(void *destination, uint64_t source, uint64_t bytes, uint64_t stream,
                         _Bool async) {
  if (capture_active()) {
    CUresult captured = recorder->bytes(stream, (uint64_t)(uintptr_t)destination, source, bytes);
    if (captured != CAPTURE_NONE) return captured;
  }
  return copy_download(destination, source, bytes, stream, copy_landing(destination, bytes, async));
}

// Between host buffers, after downloads that are on their way into one of them.
CUresult copy_wait_for_downloads(void) {
  return answer_outstanding() ? context_synchronize() : CUDA_SUCCESS;
}

CUresult copy_wait_for_host(uint64_t stream) {
  CUresult result = pending_seen && pending_any() ? stream_synchronize(stream) : CUDA_SUCCESS;
  return result ? result : copy_wait_for_downloads();
}

// Who copies while waiting sees what kernels have written before: where it was not the copy that
// was waited for, its stream is, if there is such memory at all. And what it has copied is there:
// another device may use it next that does not wait for this one.
CUresult copy_finish(uint64_t stream) {
  return host_shared || session_borrowers[session_here()] ? stream_synchronize(stream)
                                                          : CUDA_SUCCESS;
}

static CUresult copy_any(void *destination, const void *source, uint64_t bytes, uint64_t stream,
                         _Bool async) {
  if (!bytes) {
    // In a graph it is a node all the same.
    CUresult captured = capture_active() ? recorder->bytes(stream, (uint64_t)(uintptr_t)destination,
                                                           (uint64_t)(uintptr_t)source, 0)
                                         : CAPTURE_NONE;
    return captured == CAPTURE_NONE ? CUDA_SUCCESS : captured;
  }
  if (!destination || !source) return CUDA_ERROR_INVALID_VALUE;
  // No memory reaches past the end of all addresses.
  if (bytes > -(uintptr_t)destination || bytes > -(uintptr_t)source)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult across;
  if (sessions_many() &&
      cross_device_copy_line((uint64_t)(uintptr_t)destination, (uint64_t)(uintptr_t)source, bytes,
                             stream, async, &across))
    return across;
  destination = (void *)(uintptr_t)host_on_device(destination);
  source = host_on_device(source);
  _Bool to_device = memory_is_device(destination), from_device = memory_is_device(source);
  CUresult result = CUDA_SUCCESS;
  if (to_device) result = memory_check((uint64_t)(uintptr_t)destination, bytes);
  if (!result && from_device) result = memory_check_source((uint64_t)(uintptr_t)source, bytes);
  if (result) return result;
  if (to_device && from_device)
    return put_cuMemcpyDtoDAsync_v2((uint64_t)(uintptr_t)destination, (uint64_t)(uintptr_t)source,
                                    bytes, stream);
  if (to_device) return upload((uint64_t)(uintptr_t)destination, source, bytes, stream);
  if (from_device) return download(destination, (uint64_t)(uintptr_t)source, bytes, stream, async);
  if (capture_active()) {
    CUresult captured = recorder->bytes(stream, (uint64_t)(uintptr_t)destination,
                                        (uint64_t)(uintptr_t)source, bytes);
    if (captured != CAPTURE_NONE) return captured;
  }
  result = copy_wait_for_host(stream);
  if (!result) memmove(destination, source, bytes);
  return result;
}

// ---- one-dimensional ---------------------------------------------------------------------------

CUresult guest_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                    CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  srcHost = host_on_device(srcHost);
  if (!result && ByteCount) result = check_host(srcHost);
  if (!result && sessions_many() &&
      cross_device_copy_line(dstDevice, (uint64_t)(uintptr_t)srcHost, ByteCount, stream, 1,
                             &result))
    return result;
  if (!result && memory_is_shared(srcHost))
    return copy_any((void *)(uintptr_t)dstDevice, srcHost, ByteCount, stream, 1);
  if (!result) result = memory_check(dstDevice, ByteCount);
  return result ? result : upload(dstDevice, srcHost, ByteCount, stream);
}

CUresult guest_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                               int per_thread) {
  uint64_t stream;
  // Who copies while waiting may change the source afterwards.
  const _Bool waits = ByteCount && late_is_due(srcHost, ByteCount);
  CUresult result = guest_cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, NULL, per_thread);
  if (!result) result = stream_resolve(NULL, per_thread, &stream);
  if (!result && waits) return stream_synchronize(stream);
  return result ? result : copy_finish(stream);
}

CUresult guest_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  dstHost = (void *)(uintptr_t)host_on_device(dstHost);
  if (!result && ByteCount) result = check_host(dstHost);
  if (!result && sessions_many() &&
      cross_device_copy_line((uint64_t)(uintptr_t)dstHost, srcDevice, ByteCount, stream, 1,
                             &result))
    return result;
  if (!result && memory_is_shared(dstHost))
    return copy_any(dstHost, (const void *)(uintptr_t)srcDevice, ByteCount, stream, 1);
  if (!result) result = memory_check_source(srcDevice, ByteCount);
  return result ? result : download(dstHost, srcDevice, ByteCount, stream, 1);
}

CUresult guest_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                               int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(NULL, per_thread, &stream);
  dstHost = (void *)(uintptr_t)host_on_device(dstHost);
  if (!result && ByteCount) result = check_host(dstHost);
  if (!result && sessions_many() &&
      cross_device_copy_line((uint64_t)(uintptr_t)dstHost, srcDevice, ByteCount, stream, 0,
                             &result))
    return result;
  if (!result && memory_is_shared(dstHost)) {
    result = copy_any(dstHost, (const void *)(uintptr_t)srcDevice, ByteCount, stream, 0);
    return result ? result : copy_finish(stream);
  }
  if (!result) result = memory_check_source(srcDevice, ByteCount);
  return result ? result : download(dstHost, srcDevice, ByteCount, stream, 0);
}

static CUresult between(uint64_t to, uint64_t from, size_t bytes, uint64_t stream, _Bool async) {
  CUresult result;
  if (sessions_many() && cross_device_copy_line(to, from, bytes, stream, async, &result))
    return result;
  result = memory_check(to, bytes);
  if (!result) result = memory_check(from, bytes);
  return result ? result : put_cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

CUresult guest_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  return result ? result : between(dstDevice, srcDevice, ByteCount, stream, 1);
}

CUresult guest_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                               int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(NULL, per_thread, &stream);
  return result ? result : between(dstDevice, srcDevice, ByteCount, stream, 0);
}

CUresult guest_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream,
                             int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  return result
             ? result
             : copy_any((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, ByteCount, stream, 1);
}

CUresult guest_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(NULL, per_thread, &stream);
  const _Bool waits = ByteCount && late_is_due((const void *)(uintptr_t)src, ByteCount);
  if (!result)
    result = copy_any((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, ByteCount, stream, 0);
  if (!result && waits) return stream_synchronize(stream);
  return result ? result : copy_finish(stream);
}
