// Copies of bytes in a row, as cuMemcpy and its like describe them.
#include "copies/copy.h"
#include "guest_calls.h"
#include "streams/stream.h"

static uint64_t at(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

// What is true of a call (struct copy).
enum { ENDS_KNOWN = 1, ASYNC = 2 };

// Every small copy comes through here, so only what is read is written.
static inline __attribute__((always_inline)) CUresult make(enum box_place to_place, uint64_t to,
                                                           enum box_place from_place, uint64_t from,
                                                           uint64_t bytes, unsigned how,
                                                           CUstream stream, int per_thread) {
  struct copy copy;
  copy.to = box_row_at(to_place, to, bytes);
  copy.from = box_row_at(from_place, from, bytes);
  copy.box = box_row(bytes);
  copy.async = how & ASYNC;
  copy.ends_known = how & ENDS_KNOWN;
  copy.covered = copy.in_turn = copy.across = 0;
  CUresult result = stream_for_work(stream, per_thread, &copy.stream);
  return result ? result : copy_make(&copy);
}

CUresult guest_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                               int per_thread) {
  return make(BOX_DEVICE, dstDevice, BOX_HOST, at(srcHost), ByteCount, ENDS_KNOWN, NULL,
              per_thread);
}
CUresult guest_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                    CUstream hStream, int per_thread) {
  return make(BOX_DEVICE, dstDevice, BOX_HOST, at(srcHost), ByteCount, ENDS_KNOWN | ASYNC, hStream,
              per_thread);
}

CUresult guest_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                               int per_thread) {
  return make(BOX_HOST, at(dstHost), BOX_DEVICE, srcDevice, ByteCount, ENDS_KNOWN, NULL,
              per_thread);
}
CUresult guest_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream, int per_thread) {
  return make(BOX_HOST, at(dstHost), BOX_DEVICE, srcDevice, ByteCount, ENDS_KNOWN | ASYNC, hStream,
              per_thread);
}

CUresult guest_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                               int per_thread) {
  return make(BOX_DEVICE, dstDevice, BOX_DEVICE, srcDevice, ByteCount, ENDS_KNOWN, NULL,
              per_thread);
}
CUresult guest_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream, int per_thread) {
  return make(BOX_DEVICE, dstDevice, BOX_DEVICE, srcDevice, ByteCount, ENDS_KNOWN | ASYNC, hStream,
              per_thread);
}

CUresult guest_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, int per_thread) {
  return make(BOX_EITHER, dst, BOX_EITHER, src, ByteCount, 0, NULL, per_thread);
}
CUresult guest_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream,
                             int per_thread) {
  return make(BOX_EITHER, dst, BOX_EITHER, src, ByteCount, ASYNC, hStream, per_thread);
}
