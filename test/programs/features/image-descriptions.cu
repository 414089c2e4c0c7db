// What arrays, mipmaps, textures and surfaces tell of themselves.
// flags: -lcuda
#include "../check.h"
#include "../check_driver.h"

namespace {

void tell(const CUDA_RESOURCE_DESC &of, CUarray array, CUdeviceptr memory) {
  printf("kind %d", of.resType);
  if (of.resType == CU_RESOURCE_TYPE_ARRAY) printf(", the array: %d", of.res.array.hArray == array);
  if (of.resType == CU_RESOURCE_TYPE_LINEAR)
    printf(", the memory: %d, format %#x, %u channels, %zu bytes", of.res.linear.devPtr == memory,
           of.res.linear.format, of.res.linear.numChannels, of.res.linear.sizeInBytes);
  printf(", flags %u\n", of.flags);
}

}  // namespace

int main() {
  CHECK(cudaFree(nullptr));
  CUdevice device = 0;

  printf("-- arrays\n");
  CUDA_ARRAY_DESCRIPTOR plane = {20, 7, CU_AD_FORMAT_UNSIGNED_INT16, 4}, told = {};
  CUarray flat, none = nullptr, part = nullptr;
  SHOW_DRIVER(cuArrayCreate(&flat, &plane));
  SHOW_DRIVER(cuArrayGetDescriptor(&told, flat));
  printf("%zu x %zu, format %#x, %u channels\n", told.Width, told.Height, told.Format,
         told.NumChannels);
  SHOW_DRIVER(cuArrayGetDescriptor(nullptr, flat));
  SHOW_DRIVER(cuArrayGetDescriptor(&told, none));
  plane.NumChannels = 3;
  SHOW_DRIVER(cuArrayCreate(&part, &plane));
  plane = {0, 7, CU_AD_FORMAT_FLOAT, 1};
  SHOW_DRIVER(cuArrayCreate(&part, &plane));
  CUDA_ARRAY3D_DESCRIPTOR box = {}, box_told = {};
  box.Width = 12, box.Height = 6, box.Depth = 5;
  box.Format = CU_AD_FORMAT_FLOAT;
  box.NumChannels = 2;
  box.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  CUarray solid;
  SHOW_DRIVER(cuArray3DCreate(&solid, &box));
  SHOW_DRIVER(cuArray3DGetDescriptor(&box_told, solid));
  printf("%zu x %zu x %zu, flags %#x\n", box_told.Width, box_told.Height, box_told.Depth,
         box_told.Flags);
  // A box is no plane; a plane is a flat box.
  SHOW_DRIVER(cuArrayGetDescriptor(&told, solid));
  printf("%zu x %zu\n", told.Width, told.Height);
  SHOW_DRIVER(cuArray3DGetDescriptor(&box_told, flat));
  printf("%zu x %zu x %zu, flags %#x\n", box_told.Width, box_told.Height, box_told.Depth,
         box_told.Flags);

  CUDA_ARRAY_SPARSE_PROPERTIES sparse = {};
  SHOW_DRIVER(cuArrayGetSparseProperties(&sparse, flat));
  SHOW_DRIVER(cuArrayGetSparseProperties(nullptr, flat));
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {};
  SHOW_DRIVER(cuArrayGetMemoryRequirements(&needs, flat, device));
  SHOW_DRIVER(cuArrayGetMemoryRequirements(nullptr, flat, device));
  SHOW_DRIVER(cuArrayGetMemoryRequirements(&needs, flat, 1000));
  SHOW_DRIVER(cuArrayGetPlane(&part, flat, 0));
  SHOW_DRIVER(cuArrayGetPlane(nullptr, flat, 0));
  size_t widest = 0;
  SHOW_DRIVER(cuDeviceGetTexture1DLinearMaxWidth(&widest, CU_AD_FORMAT_FLOAT, 1, device));
  printf("widest: %zu\n", widest);
  SHOW_DRIVER(cuDeviceGetTexture1DLinearMaxWidth(&widest, CU_AD_FORMAT_FLOAT, 4, device));
  printf("widest: %zu\n", widest);
  SHOW_DRIVER(cuDeviceGetTexture1DLinearMaxWidth(&widest, CU_AD_FORMAT_FLOAT, 3, device));
  SHOW_DRIVER(cuDeviceGetTexture1DLinearMaxWidth(&widest, CU_AD_FORMAT_FLOAT, 1, 1000));
  SHOW_DRIVER(cuDeviceGetTexture1DLinearMaxWidth(nullptr, CU_AD_FORMAT_FLOAT, 1, device));

  printf("-- mipmaps\n");
  box.Depth = 0;
  box.NumChannels = 1;
  CUmipmappedArray pyramid;
  SHOW_DRIVER(cuMipmappedArrayCreate(&pyramid, &box, 3));
  SHOW_DRIVER(cuMipmappedArrayGetSparseProperties(&sparse, pyramid));
  SHOW_DRIVER(cuMipmappedArrayGetMemoryRequirements(&needs, pyramid, device));
  SHOW_DRIVER(cuMipmappedArrayGetMemoryRequirements(&needs, pyramid, 1000));
  for (unsigned i = 0; i < 4; i++) {
    CUarray level = nullptr;
    SHOW_DRIVER(cuMipmappedArrayGetLevel(&level, pyramid, i));
    if (i > 2) break;
    SHOW_DRIVER(cuArray3DGetDescriptor(&box_told, level));
    printf("%zu x %zu x %zu\n", box_told.Width, box_told.Height, box_told.Depth);
    if (i == 1) SHOW_DRIVER(cuArrayDestroy(level));
  }

  printf("-- texture objects\n");
  CUdeviceptr memory;
  DRIVER(cuMemAlloc(&memory, 4096));
  CUDA_RESOURCE_DESC resource = {}, resource_told = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_SIGNED_INT32;
  resource.res.linear.numChannels = 2;
  resource.res.linear.sizeInBytes = 2048;
  CUDA_TEXTURE_DESC texture = {}, texture_told = {};
  texture.addressMode[0] = CU_TR_ADDRESS_MODE_CLAMP;
  texture.flags = CU_TRSF_READ_AS_INTEGER;
  texture.borderColor[2] = 0.25f;
  CUDA_RESOURCE_VIEW_DESC view = {}, view_told = {};
  CUtexObject object;
  SHOW_DRIVER(cuTexObjectCreate(&object, &resource, &texture, nullptr));
  SHOW_DRIVER(cuTexObjectGetResourceDesc(&resource_told, object));
  tell(resource_told, nullptr, memory);
  SHOW_DRIVER(cuTexObjectGetTextureDesc(&texture_told, object));
  printf("modes %d %d %d, filter %d, flags %u, border %g\n", texture_told.addressMode[0],
         texture_told.addressMode[1], texture_told.addressMode[2], texture_told.filterMode,
         texture_told.flags, texture_told.borderColor[2]);
  SHOW_DRIVER(cuTexObjectGetResourceViewDesc(&view_told, object));
  SHOW_DRIVER(cuTexObjectDestroy(object));
  SHOW_DRIVER(cuTexObjectGetResourceDesc(&resource_told, object));
  SHOW_DRIVER(cuTexObjectGetTextureDesc(&texture_told, object));

  resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = flat;
  view.format = CU_RES_VIEW_FORMAT_UINT_4X16;
  view.width = 20;
  view.height = 7;
  SHOW_DRIVER(cuTexObjectCreate(&object, &resource, &texture, &view));
  SHOW_DRIVER(cuTexObjectGetResourceDesc(&resource_told, object));
  tell(resource_told, flat, 0);
  SHOW_DRIVER(cuTexObjectGetResourceViewDesc(&view_told, object));
  printf("view: format %d, %zu x %zu x %zu, levels %u to %u\n", view_told.format, view_told.width,
         view_told.height, view_told.depth, view_told.firstMipmapLevel, view_told.lastMipmapLevel);
  SHOW_DRIVER(cuTexObjectDestroy(object));

  printf("-- surface objects\n");
  CUsurfObject surface;
  resource.res.array.hArray = flat;
  SHOW_DRIVER(cuSurfObjectCreate(&surface, &resource));
  resource.res.array.hArray = solid;
  SHOW_DRIVER(cuSurfObjectCreate(&surface, &resource));
  SHOW_DRIVER(cuSurfObjectGetResourceDesc(&resource_told, surface));
  tell(resource_told, solid, 0);
  SHOW_DRIVER(cuSurfObjectGetResourceDesc(nullptr, surface));
  SHOW_DRIVER(cuSurfObjectDestroy(surface));
  SHOW_DRIVER(cuSurfObjectGetResourceDesc(&resource_told, surface));

  SHOW_DRIVER(cuMipmappedArrayDestroy(pyramid));
  SHOW_DRIVER(cuArrayDestroy(flat));
  SHOW_DRIVER(cuArrayDestroy(solid));
  SHOW_DRIVER(cuMemFree(memory));
  return 0;
}
