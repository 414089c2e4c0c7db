// Copies of bytes in a row to and from arrays, whose rows count without what may lie between them.
#include "arrays/array.h"
#include "copies/copy.h"
#include "copies/download.h"
#include "guest_calls.h"
#include "streams/stream.h"

// A part of a copy: bytes from here on that lie in a box of the array.
struct part {
  uint64_t x, y, z;
  struct box box;
};

// The first part of `bytes` from byte `offset` on.
static CUresult next_part(CUarray handle, uint64_t offset, uint64_t bytes, struct part *part) {
  const struct array *array = array_find(handle);
  if (!array) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t row = array->descriptor.Width * array->element;
  const uint64_t rows = array->descriptor.Height ? array->descriptor.Height : 1;
  *part = (struct part){.x = offset % row, .y = offset / row % rows, .z = offset / row / rows};
  const uint64_t slices = array->descriptor.Depth ? array->descriptor.Depth : 1;
  if (part->x == 0 && part->y == 0 && bytes >= row * rows) {
    // What lies behind the end fails when its turn comes, not before.
    uint64_t whole = bytes / (row * rows), left = part->z < slices ? slices - part->z : whole;
    part->box = (struct box){row, rows, whole < left ? whole : left};
  } else if (part->x == 0 && bytes >= row) {
    uint64_t whole = bytes / row;
    part->box = (struct box){row, whole < rows - part->y ? whole : rows - part->y, 1};
  } else {
    part->box = (struct box){bytes < row - part->x ? bytes : row - part->x, 1, 1};
  }
  return CUDA_SUCCESS;
}

struct line {
  CUarray array;
  uint64_t offset;
  uint64_t other;  // an address
  enum box_place place;
  _Bool to_array, async;
};

// What is checked is checked part by part, as the device does.
static CUresult copy_line(struct line line, uint64_t bytes, CUstream handle, int per_thread) {
  struct copy copy = {.async = line.async};
  CUresult result = stream_for_work(handle, per_thread, &copy.stream);
  if (!result && !array_find(line.array)) result = CUDA_ERROR_INVALID_VALUE;
  while (bytes && !result) {
    struct part part;
    struct box_end in_array;
    result = next_part(line.array, line.offset, bytes, &part);
    if (!result) result = box_in_array(line.array, part.x, part.y, part.z, &part.box, &in_array);
    if (result) break;
    const uint64_t size = box_bytes(&part.box);
    const struct box_end other = {.place = line.place,
                                  .address = line.other,
                                  .pitch = part.box.width,
                                  .rows = part.box.height};
    copy.to = line.to_array ? in_array : other;
    copy.from = line.to_array ? other : in_array;
    copy.box = part.box;
    // One wait for all: answers on one stream come in order, so the last covers the others.
    copy.covered = size < bytes;
    result = copy_make(&copy);
    line.offset += size;
    line.other += size;
    bytes -= size;
  }
  // Nothing lands behind the back of a call that failed.
  if (result) download_wait_for_all(session_here());
  return result;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static CUresult between(CUarray to, uint64_t to_offset, CUarray from, uint64_t from_offset,
                        uint64_t bytes, int per_thread) {
  struct copy copy = {.async = 0};
  CUresult result = stream_for_work(NULL, per_thread, &copy.stream);
  if (!result && (!array_find(to) || !array_find(from))) result = CUDA_ERROR_INVALID_VALUE;
  while (bytes && !result) {
    struct part there, here;
    result = next_part(to, to_offset, bytes, &there);
    if (!result) result = next_part(from, from_offset, bytes, &here);
    if (result) return result;
    // Row by row where the rows of both do not agree.
    struct box box = box_row(smaller(here.box.width, there.box.width));
    if (here.box.width == there.box.width) {
      box.height = smaller(here.box.height, there.box.height);
      if (here.box.height == there.box.height) box.depth = smaller(here.box.depth, there.box.depth);
    }
    copy.box = box;
    result = box_in_array(to, there.x, there.y, there.z, &box, &copy.to);
    if (!result) result = box_in_array(from, here.x, here.y, here.z, &box, &copy.from);
    if (!result) result = copy_make(&copy);
    const uint64_t size = box_bytes(&box);
    to_offset += size;
    from_offset += size;
    bytes -= size;
  }
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

static CUresult host_to_array(CUarray to, size_t offset, const void *from, size_t bytes,
                              CUstream stream, int per_thread, _Bool async) {
  struct line line = {to, offset, (uint64_t)(uintptr_t)from, BOX_HOST, 1, async};
  return copy_line(line, bytes, stream, per_thread);
}
static CUresult array_to_host(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream,
                              int per_thread, _Bool async) {
  struct line line = {from, offset, (uint64_t)(uintptr_t)to, BOX_HOST, 0, async};
  return copy_line(line, bytes, stream, per_thread);
}

CUresult guest_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                               size_t ByteCount, int per_thread) {
  return host_to_array(dstArray, dstOffset, srcHost, ByteCount, NULL, per_thread, 0);
}
CUresult guest_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                                    size_t ByteCount, CUstream hStream, int per_thread) {
  return host_to_array(dstArray, dstOffset, srcHost, ByteCount, hStream, per_thread, 1);
}
CUresult guest_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                               int per_thread) {
  return array_to_host(dstHost, srcArray, srcOffset, ByteCount, NULL, per_thread, 0);
}
CUresult guest_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
                                    size_t ByteCount, CUstream hStream, int per_thread) {
  return array_to_host(dstHost, srcArray, srcOffset, ByteCount, hStream, per_thread, 1);
}
CUresult guest_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
                               size_t ByteCount, int per_thread) {
  struct line line = {dstArray, dstOffset, srcDevice, BOX_DEVICE, 1, 0};
  return copy_line(line, ByteCount, NULL, per_thread);
}
CUresult guest_cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
                               size_t ByteCount, int per_thread) {
  struct line line = {srcArray, srcOffset, dstDevice, BOX_DEVICE, 0, 0};
  return copy_line(line, ByteCount, NULL, per_thread);
}
CUresult guest_cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray,
                               size_t srcOffset, size_t ByteCount, int per_thread) {
  return between(dstArray, dstOffset, srcArray, srcOffset, ByteCount, per_thread);
}
