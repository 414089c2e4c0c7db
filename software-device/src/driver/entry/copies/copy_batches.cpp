// Entry points: many copies in one call. The order among them is not defined.
#include "entry/entry.h"
#include "textures/array.h"

using namespace softdev::driver;

namespace {

constexpr size_t kNoIndex = SIZE_MAX;

// Batches want a stream of their own: the legacy one orders everything.
CUresult find_batch_stream(CUstream handle, Default null, StreamRef *stream) {
  if (handle == CU_STREAM_LEGACY || (!handle && null == Default::kLegacy))
    return refuse(CUDA_ERROR_INVALID_VALUE, "a batch of copies cannot go to the legacy stream");
  return find_stream(handle, null, stream);
}

bool known(CUmemcpySrcAccessOrder order, unsigned flags) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
         !(flags & ~static_cast<unsigned>(CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE));
}

// Whether the source may change as soon as the call is over.
bool at_once(CUmemcpySrcAccessOrder order) {
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
}

// Which attributes each copy has: attribute i is for the copies from indices[i] to the next one.
CUresult check_attributes(const CUmemcpyAttributes *attributes, const size_t *indices,
                          size_t attribute_count, size_t count) {
  if (!attributes || !indices || !attribute_count || attribute_count > count || indices[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < attribute_count; i++) {
    if (indices[i] >= count || (i && indices[i] <= indices[i - 1])) return CUDA_ERROR_INVALID_VALUE;
    if (!known(attributes[i].srcAccessOrder, attributes[i].flags)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult linear(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count,
                size_t *failed, CUstream handle, Default null) {
  if (failed) *failed = kNoIndex;
  StreamRef stream;
  if (CUresult bad = find_batch_stream(handle, null, &stream)) return bad;
  if (!to || !from || !sizes || !count) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = check_attributes(attributes, indices, attribute_count, count)) return bad;
  return guarded([&]() -> CUresult {
    size_t kind = 0;
    for (size_t i = 0; i < count; i++) {
      if (kind + 1 < attribute_count && indices[kind + 1] == i) kind++;
      End target{to[i], sizes[i], sizes[i], Side::kEither};
      End source{from[i], sizes[i], sizes[i], Side::kEither};
      CUresult bad =
          copy(stream, target, source, {sizes[i], 1, 1}, !at_once(attributes[kind].srcAccessOrder));
      if (bad == CUDA_SUCCESS) continue;
      if (failed) *failed = i;
      return bad;
    }
    return CUDA_SUCCESS;
  });
}

// Bytes of an element: extents count those of the arrays, or bytes where there is no array.
CUresult element_of(const CUDA_MEMCPY3D_BATCH_OP &what, size_t *element) {
  *element = 0;
  for (const CUmemcpy3DOperand *operand : {&what.src, &what.dst}) {
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) continue;
    auto array = driver()->handles.find<Array>(operand->op.array.array);
    if (!array) return refuse(CUDA_ERROR_INVALID_VALUE, "an operand is no array");
    size_t bytes = array->shape.format.element;
    if (*element && *element != bytes)
      return refuse(CUDA_ERROR_INVALID_VALUE, "the arrays have elements of different sizes");
    *element = bytes;
  }
  if (!*element) *element = 1;
  return CUDA_SUCCESS;
}

// `box` is in bytes.
CUresult end_of(const CUmemcpy3DOperand &operand, const Box &box, size_t element, End *end) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const auto &array = operand.op.array;
    if (array.offset.x > SIZE_MAX / element) return CUDA_ERROR_INVALID_VALUE;
    return array_end(array.array, array.offset.x * element, array.offset.y, array.offset.z, box,
                     end);
  }
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  const auto &pointer = operand.op.ptr;
  size_t rows = pointer.layerHeight ? pointer.layerHeight : box.height;
  if (pointer.rowLength > SIZE_MAX / element) return CUDA_ERROR_INVALID_VALUE;
  end->address = pointer.ptr;
  end->pitch = pointer.rowLength ? pointer.rowLength * element : box.width;
  end->side = Side::kEither;
  if (end->pitch < box.width || rows < box.height || end->pitch > SIZE_MAX / rows)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a row or a layer is smaller than what is copied");
  end->slice = end->pitch * rows;
  return CUDA_SUCCESS;
}

CUresult copy_box(const StreamRef &stream, const CUDA_MEMCPY3D_BATCH_OP &what) {
  const CUextent3D &extent = what.extent;
  size_t element;
  if (CUresult bad = element_of(what, &element)) return bad;
  if (!extent.width || !extent.height || !extent.depth || !known(what.srcAccessOrder, what.flags) ||
      extent.width > SIZE_MAX / element || extent.width * element > SIZE_MAX / extent.height ||
      extent.width * element * extent.height > SIZE_MAX / extent.depth)
    return CUDA_ERROR_INVALID_VALUE;
  const Box box{extent.width * element, extent.height, extent.depth};
  End to, from;
  if (CUresult bad = end_of(what.dst, box, element, &to)) return bad;
  if (CUresult bad = end_of(what.src, box, element, &from)) return bad;
  return copy(stream, to, from, box, !at_once(what.srcAccessOrder));
}

CUresult boxes(size_t count, const CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
               unsigned long long flags, CUstream handle, Default null) {
  if (failed) *failed = kNoIndex;
  StreamRef stream;
  if (CUresult bad = find_batch_stream(handle, null, &stream)) return bad;
  if (!count || !list || flags) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    for (size_t i = 0; i < count; i++) {
      CUresult bad = copy_box(stream, list[i]);
      if (bad == CUDA_SUCCESS) continue;
      if (failed) *failed = i;
      return bad;
    }
    return CUDA_SUCCESS;
  });
}

// One copy may go to any stream.
CUresult one(CUdeviceptr to, CUdeviceptr from, size_t size, const CUmemcpyAttributes *attributes,
             CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!attributes || !known(attributes->srcAccessOrder, attributes->flags))
    return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    return copy(stream, {to, size, size, Side::kEither}, {from, size, size, Side::kEither},
                {size, 1, 1}, !at_once(attributes->srcAccessOrder));
  });
}

CUresult one_box(const CUDA_MEMCPY3D_BATCH_OP *what, unsigned long long flags, CUstream handle,
                 Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!what || flags) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] { return copy_box(stream, *what); });
}

}  // namespace

extern "C" {

#define LISTS                                                                                      \
  CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, \
      size_t *indices, size_t attribute_count
#define LIST_ARGUMENTS to, from, sizes, count, attributes, indices, attribute_count

CUresult cuMemcpyBatchAsync(LISTS, size_t *failed, CUstream stream) {
  return linear(LIST_ARGUMENTS, failed, stream, Default::kLegacy);
}
CUresult cuMemcpyBatchAsync_ptsz(LISTS, size_t *failed, CUstream stream) {
  return linear(LIST_ARGUMENTS, failed, stream, Default::kPerThread);
}
CUresult cuMemcpyBatchAsync_v2(LISTS, CUstream stream) {
  return linear(LIST_ARGUMENTS, nullptr, stream, Default::kLegacy);
}
CUresult cuMemcpyBatchAsync_v2_ptsz(LISTS, CUstream stream) {
  return linear(LIST_ARGUMENTS, nullptr, stream, Default::kPerThread);
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
                              unsigned long long flags, CUstream stream) {
  return boxes(count, list, failed, flags, stream, Default::kLegacy);
}
CUresult cuMemcpy3DBatchAsync_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
                                   unsigned long long flags, CUstream stream) {
  return boxes(count, list, failed, flags, stream, Default::kPerThread);
}
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *list,
                                 unsigned long long flags, CUstream stream) {
  return boxes(count, list, nullptr, flags, stream, Default::kLegacy);
}
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP *list,
                                      unsigned long long flags, CUstream stream) {
  return boxes(count, list, nullptr, flags, stream, Default::kPerThread);
}

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t size,
                                     CUmemcpyAttributes *attributes, CUstream stream) {
  return one(to, from, size, attributes, stream, Default::kLegacy);
}
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t size,
                                          CUmemcpyAttributes *attributes, CUstream stream) {
  return one(to, from, size, attributes, stream, Default::kPerThread);
}
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *what, unsigned long long flags,
                                       CUstream stream) {
  return one_box(what, flags, stream, Default::kLegacy);
}
CUresult cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP *what, unsigned long long flags,
                                            CUstream stream) {
  return one_box(what, flags, stream, Default::kPerThread);
}

}  // extern "C"
