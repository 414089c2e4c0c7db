// Entry points: arrays and mipmapped arrays.
#include <algorithm>
#include <bit>

#include "entry/entry.h"
#include "textures/array.h"

using namespace softdev::driver;

namespace {

CUresult create(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *given) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (!handle || !given) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    ArrayShape shape;
    std::shared_ptr<Array> array;
    if (CUresult bad = read_shape(*given, 1, &shape)) return bad;
    if (CUresult bad = create_array(context, std::move(shape), &array)) return bad;
    *handle = as_handle<CUarray>(*array);
    return CUDA_SUCCESS;
  });
}

template <class Object, class Handle>
CUresult find(Handle handle, std::shared_ptr<Object> *object) {
  if (CUresult bad = enter()) return bad;
  *object = driver()->handles.find<Object>(handle);
  if (!*object) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no array", (void *)handle);
  return (*object)->context.lock() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace

extern "C" {

CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *descriptor) {
  if (!descriptor) return create(handle, nullptr);
  const CUDA_ARRAY3D_DESCRIPTOR flat = {descriptor->Width,  descriptor->Height,      0,
                                        descriptor->Format, descriptor->NumChannels, 0};
  return create(handle, &flat);
}

CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
  return create(handle, descriptor);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray handle) {
  std::shared_ptr<Array> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (!descriptor) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR &of = array->shape.descriptor;
  *descriptor = {of.Width, of.Height, of.Format, of.NumChannels};
  return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray handle) {
  std::shared_ptr<Array> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (!descriptor) return CUDA_ERROR_INVALID_VALUE;
  *descriptor = array->shape.descriptor;
  return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray handle) {
  std::shared_ptr<Array> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (array->of_mipmap)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "%p belongs to a mipmapped array", (void *)handle);
  if (!driver()->handles.remove<Array>(handle)) return CUDA_ERROR_INVALID_HANDLE;
  return guarded([&] {
    destroy_array(*array);
    return CUDA_SUCCESS;
  });
}

CUresult cuArrayGetPlane(CUarray *plane, CUarray handle, unsigned int) {
  std::shared_ptr<Array> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (!plane) return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_INVALID_VALUE, "the array has one plane: its format is not planar");
}

// Both answers are of arrays that are mapped later, which this device does not make.
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray handle,
                                      CUdevice device) {
  std::shared_ptr<Array> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (!requirements || !driver()->device(device)) return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_INVALID_VALUE, "the array was not created to be mapped later");
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements,
                                               CUmipmappedArray handle, CUdevice device) {
  std::shared_ptr<MipmappedArray> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (!requirements || !driver()->device(device)) return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_INVALID_VALUE, "the array was not created to be mapped later");
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties, CUarray handle) {
  std::shared_ptr<Array> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_INVALID_VALUE, "the array is not sparse");
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties,
                                             CUmipmappedArray handle) {
  std::shared_ptr<MipmappedArray> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_INVALID_VALUE, "the array is not sparse");
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                unsigned int levels) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (!handle || !descriptor) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    const bool flat = descriptor->Flags & (array_flags::kLayered | array_flags::kCube);
    size_t longest =
        std::max({descriptor->Width, descriptor->Height, flat ? size_t{0} : descriptor->Depth});
    // As many as there can be, or as are asked for.
    auto most = static_cast<unsigned>(std::bit_width(longest));
    ArrayShape shape;
    std::shared_ptr<MipmappedArray> array;
    if (CUresult bad =
            read_shape(*descriptor, std::clamp(levels, 1u, std::clamp(most, 1u, 32u)), &shape))
      return bad;
    if (CUresult bad = create_mipmapped_array(context, std::move(shape), &array)) return bad;
    *handle = as_handle<CUmipmappedArray>(*array);
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray handle, unsigned int index) {
  std::shared_ptr<MipmappedArray> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (!level) return CUDA_ERROR_INVALID_VALUE;
  if (index >= array->levels.size())
    return refuse(CUDA_ERROR_INVALID_VALUE, "the array has %zu levels", array->levels.size());
  *level = reinterpret_cast<CUarray>(array->levels[index]);
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  std::shared_ptr<MipmappedArray> array;
  if (CUresult bad = find(handle, &array)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (!driver()->handles.remove<MipmappedArray>(handle)) return CUDA_ERROR_INVALID_HANDLE;
  return guarded([&] {
    destroy_mipmapped_array(*array);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format,
                                            unsigned int channels, CUdevice ordinal) {
  if (CUresult bad = enter()) return bad;
  const Device *device = driver()->device(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  Format known;
  if (!width) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = read_format(format, channels, &known)) return bad;
  int most = 0;
  device->attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, &most);
  *width = static_cast<size_t>(most);
  return CUDA_SUCCESS;
}

}  // extern "C"
