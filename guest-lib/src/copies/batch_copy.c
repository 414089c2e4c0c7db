// Many copies in one call. The order among them is not defined.
#include <stdint.h>

#include "arrays/array.h"
#include "copies/box.h"
#include "copies/copy.h"
#include "copies/cross_device.h"
#include "guest_calls.h"
#include "session/session.h"
#include "streams/stream.h"

// Batches want a stream of their own: the legacy one orders everything.
static CUresult resolve(CUstream handle, int per_thread, uint64_t *stream) {
  if (handle == CU_STREAM_LEGACY || (!handle && !per_thread)) return CUDA_ERROR_INVALID_VALUE;
  return stream_for_work(handle, per_thread, stream);
}

static _Bool known(CUmemcpySrcAccessOrder order, unsigned flags) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
         !(flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
}

// Attribute i is for the copies from indices[i] to the next one.
static CUresult check_attributes(const CUmemcpyAttributes *attributes, const size_t *indices,
                                 size_t attribute_count, size_t count) {
  if (!attributes || !indices || !attribute_count || attribute_count > count || indices[0])
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < attribute_count; i++) {
    if (indices[i] >= count || (i && indices[i] <= indices[i - 1])) return CUDA_ERROR_INVALID_VALUE;
    if (!known(attributes[i].srcAccessOrder, attributes[i].flags)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// Sources in host memory are read during the call in any case, so their access order asks nothing
// more. What lands in pageable memory is waited for at the end: one copy that waits covers the
// others, for answers on one stream come in order.
struct wait {
  struct box_end to, from;
  struct box box;
  _Bool needed;
};

static CUresult move(struct box_end *to, struct box_end *from, const struct box *box,
                     uint64_t stream, struct wait *wait) {
  if (!box->width || !box->height || !box->depth) return CUDA_SUCCESS;
  CUresult result;
  if (sessions_many() && cross_device_copy(to, from, box, stream, 1, &result)) return result;
  result = box_locate(to, from, box);
  if (result) return result;
  if (to->place != BOX_HOST || from->place == BOX_HOST ||
      box_landing(to, box, 1) == LANDING_DEFERRED)
    return box_move(to, from, box, stream, LANDING_DEFERRED);
  if (wait->needed) result = box_move(&wait->to, &wait->from, &wait->box, stream, LANDING_DEFERRED);
  *wait = (struct wait){*to, *from, *box, 1};
  return result;
}

static CUresult finish(struct wait *wait, uint64_t stream) {
  return wait->needed ? box_move(&wait->to, &wait->from, &wait->box, stream, LANDING_WAITED_FOR)
                      : CUDA_SUCCESS;
}

// ---- lines -------------------------------------------------------------------------------------

CUresult guest_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                  CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                                  size_t *failIdx, CUstream hStream, int per_thread) {
  if (failIdx) *failIdx = SIZE_MAX;
  uint64_t stream;
  CUresult result = resolve(hStream, per_thread, &stream);
  if (!result && (!dsts || !srcs || !sizes || !count)) result = CUDA_ERROR_INVALID_VALUE;
  if (!result) result = check_attributes(attrs, attrsIdxs, numAttrs, count);
  if (result) return result;
  struct wait wait = {.needed = 0};
  for (size_t i = 0; i < count; i++) {
    struct box_end to = {.place = BOX_EITHER, .address = dsts[i], .pitch = sizes[i], .rows = 1};
    struct box_end from = {.place = BOX_EITHER, .address = srcs[i], .pitch = sizes[i], .rows = 1};
    result = move(&to, &from, &(struct box){sizes[i], 1, 1}, stream, &wait);
    if (!result) continue;
    if (failIdx) *failIdx = i;
    break;
  }
  CUresult finished = finish(&wait, stream);
  return result ? result : finished;
}

CUresult guest_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                     size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                     size_t numAttrs, CUstream hStream, int per_thread) {
  return guest_cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, NULL,
                                  hStream, per_thread);
}

// ---- boxes -------------------------------------------------------------------------------------

// Bytes of an element: extents count those of the arrays, or bytes where there is no array.
static CUresult element_of(const CUDA_MEMCPY3D_BATCH_OP *what, uint64_t *element) {
  const CUmemcpy3DOperand *operands[2] = {&what->src, &what->dst};
  *element = 0;
  for (int i = 0; i < 2; i++) {
    if (operands[i]->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) continue;
    const struct array *array = array_find(operands[i]->op.array.array);
    if (!array || (*element && *element != array->element)) return CUDA_ERROR_INVALID_VALUE;
    *element = array->element;
  }
  if (!*element) *element = 1;
  return CUDA_SUCCESS;
}

static CUresult end_of(const CUmemcpy3DOperand *operand, const struct box *box, uint64_t element,
                       struct box_end *end) {
  if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    uint64_t x;
    if (__builtin_mul_overflow(operand->op.array.offset.x, element, &x))
      return CUDA_ERROR_INVALID_VALUE;
    return box_in_array(operand->op.array.array, x, operand->op.array.offset.y,
                        operand->op.array.offset.z, box, end);
  }
  if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  uint64_t pitch, slice;
  uint64_t rows = operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : box->height;
  if (__builtin_mul_overflow(operand->op.ptr.rowLength, element, &pitch))
    return CUDA_ERROR_INVALID_VALUE;
  if (!pitch) pitch = box->width;
  if (pitch < box->width || rows < box->height || __builtin_mul_overflow(pitch, rows, &slice))
    return CUDA_ERROR_INVALID_VALUE;
  *end = (struct box_end){
      .place = BOX_EITHER, .address = operand->op.ptr.ptr, .pitch = pitch, .rows = rows};
  return CUDA_SUCCESS;
}

static CUresult move_box(const CUDA_MEMCPY3D_BATCH_OP *what, uint64_t stream, struct wait *wait) {
  uint64_t element, bytes;
  CUresult result = element_of(what, &element);
  if (result) return result;
  struct box box = {0, what->extent.height, what->extent.depth};
  if (!what->extent.width || !box.height || !box.depth ||
      !known(what->srcAccessOrder, what->flags) ||
      __builtin_mul_overflow(what->extent.width, element, &box.width) ||
      __builtin_mul_overflow(box.width, box.height, &bytes) ||
      __builtin_mul_overflow(bytes, box.depth, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  struct box_end to, from;
  result = end_of(&what->dst, &box, element, &to);
  if (!result) result = end_of(&what->src, &box, element, &from);
  return result ? result : move(&to, &from, &box, stream, wait);
}

CUresult guest_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
                                    unsigned long long flags, CUstream hStream, int per_thread) {
  if (failIdx) *failIdx = SIZE_MAX;
  uint64_t stream;
  CUresult result = resolve(hStream, per_thread, &stream);
  if (!result && (!numOps || !opList || flags)) result = CUDA_ERROR_INVALID_VALUE;
  if (result) return result;
  struct wait wait = {.needed = 0};
  for (size_t i = 0; i < numOps; i++) {
    if (!(result = move_box(&opList[i], stream, &wait))) continue;
    if (failIdx) *failIdx = i;
    break;
  }
  CUresult finished = finish(&wait, stream);
  return result ? result : finished;
}

CUresult guest_cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                       unsigned long long flags, CUstream hStream, int per_thread) {
  return guest_cuMemcpy3DBatchAsync(numOps, opList, NULL, flags, hStream, per_thread);
}

// ---- one copy, which may go to any stream ------------------------------------------------------

CUresult guest_cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                           CUmemcpyAttributes *attr, CUstream hStream,
                                           int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  if (!result && (!attr || !known(attr->srcAccessOrder, attr->flags)))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result) return result;
  struct wait wait = {.needed = 0};
  struct box_end to = {.place = BOX_EITHER, .address = dst, .pitch = size, .rows = 1};
  struct box_end from = {.place = BOX_EITHER, .address = src, .pitch = size, .rows = 1};
  result = move(&to, &from, &(struct box){size, 1, 1}, stream, &wait);
  return result ? result : finish(&wait, stream);
}

CUresult guest_cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                             CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  if (!result && (!op || flags)) result = CUDA_ERROR_INVALID_VALUE;
  if (result) return result;
  struct wait wait = {.needed = 0};
  result = move_box(op, stream, &wait);
  return result ? result : finish(&wait, stream);
}
