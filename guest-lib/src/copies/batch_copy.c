// Many copies in one call. The order among them is not defined.
#include <stdint.h>

#include "arrays/array.h"
#include "copies/copy.h"
#include "copies/download.h"
#include "copies/resolve.h"
#include "guest_calls.h"
#include "streams/room.h"
#include "streams/stream.h"

// Batches want a stream of their own: the legacy one orders everything.
static CUresult find_stream(CUstream handle, int per_thread, uint64_t *stream) {
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
struct batch {
  uint64_t stream;
  struct copy last;  // the copy to wait for, while its box is not empty
};

static _Bool is_waited_for(const struct copy *copy) {
  return !copy->across && copy->to.place == BOX_HOST && copy->from.place != BOX_HOST &&
         copy_landing(copy) == LANDING_WAITED_FOR;
}

static CUresult finish(struct batch *batch) {
  if (box_is_empty(&batch->last.box)) return CUDA_SUCCESS;
  // A copy that was refused after it may have named things of another session.
  session_use(batch->last.session);
  return copy_route(&batch->last);
}

static CUresult add(struct batch *batch, struct copy *copy) {
  if (box_is_empty(&copy->box)) return CUDA_SUCCESS;
  copy->stream = batch->stream;
  copy->async = 1;
  CUresult result = copy_resolve(copy);
  // One call may be more copies than a stream takes.
  if (!result) result = stream_await_room(copy->session, copy->stream);
  if (result || !is_waited_for(copy)) return result ? result : copy_route(copy);
  batch->last.covered = 1;
  result = finish(batch);
  batch->last = *copy;
  return result;
}

static CUresult add_line(struct batch *batch, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  struct copy copy = {.to = box_row_at(BOX_EITHER, to, bytes),
                      .from = box_row_at(BOX_EITHER, from, bytes),
                      .box = box_row(bytes)};
  return add(batch, &copy);
}

// ---- lines -------------------------------------------------------------------------------------

CUresult guest_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                  CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                                  size_t *failIdx, CUstream hStream, int per_thread) {
  if (failIdx) *failIdx = SIZE_MAX;
  struct batch batch = {0};
  CUresult result = find_stream(hStream, per_thread, &batch.stream);
  if (!result && (!dsts || !srcs || !sizes || !count)) result = CUDA_ERROR_INVALID_VALUE;
  if (!result) result = check_attributes(attrs, attrsIdxs, numAttrs, count);
  if (result) return result;
  for (size_t i = 0; i < count; i++) {
    if (!(result = add_line(&batch, dsts[i], srcs[i], sizes[i]))) continue;
    if (failIdx) *failIdx = i;
    break;
  }
  CUresult finished = finish(&batch);
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

static CUresult add_box(struct batch *batch, const CUDA_MEMCPY3D_BATCH_OP *what) {
  uint64_t element, bytes;
  CUresult result = element_of(what, &element);
  if (result) return result;
  struct copy copy = {.box = {0, what->extent.height, what->extent.depth}};
  struct box *box = &copy.box;
  if (!what->extent.width || !box->height || !box->depth ||
      !known(what->srcAccessOrder, what->flags) ||
      __builtin_mul_overflow(what->extent.width, element, &box->width) ||
      __builtin_mul_overflow(box->width, box->height, &bytes) ||
      __builtin_mul_overflow(bytes, box->depth, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  result = end_of(&what->dst, box, element, &copy.to);
  if (!result) result = end_of(&what->src, box, element, &copy.from);
  return result ? result : add(batch, &copy);
}

CUresult guest_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
                                    unsigned long long flags, CUstream hStream, int per_thread) {
  if (failIdx) *failIdx = SIZE_MAX;
  struct batch batch = {0};
  CUresult result = find_stream(hStream, per_thread, &batch.stream);
  if (!result && (!numOps || !opList || flags)) result = CUDA_ERROR_INVALID_VALUE;
  if (result) return result;
  for (size_t i = 0; i < numOps; i++) {
    if (!(result = add_box(&batch, &opList[i]))) continue;
    if (failIdx) *failIdx = i;
    break;
  }
  CUresult finished = finish(&batch);
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
  struct batch batch = {0};
  CUresult result = stream_for_work(hStream, per_thread, &batch.stream);
  if (!result && (!attr || !known(attr->srcAccessOrder, attr->flags)))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result) return result;
  result = add_line(&batch, dst, src, size);
  return result ? result : finish(&batch);
}

CUresult guest_cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                             CUstream hStream, int per_thread) {
  struct batch batch = {0};
  CUresult result = stream_for_work(hStream, per_thread, &batch.stream);
  if (!result && (!op || flags)) result = CUDA_ERROR_INVALID_VALUE;
  if (result) return result;
  result = add_box(&batch, op);
  return result ? result : finish(&batch);
}
