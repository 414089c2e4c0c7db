// What the device claims, and what becomes of calls for that: fails where one is refused.
#include <cstdlib>

#include "check_driver.h"

static CUdevice device;
static int claimed_and_refused;

static void compare(CUdevice_attribute attribute, const char *name, CUresult result) {
  int claimed;
  DRIVER(cuDeviceGetAttribute(&claimed, attribute, device));
  printf("%s is %d: %s\n", name, claimed, driver_name(result));
  claimed_and_refused += claimed && result != CUDA_SUCCESS;
}
#define COMPARE(attribute, call) compare(CU_DEVICE_ATTRIBUTE_##attribute, #attribute, call)

static CUmemAllocationProp plain() {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

static CUresult create(const CUmemAllocationProp &prop) {
  size_t granule;
  CUmemGenericAllocationHandle handle;
  CUresult result =
      cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (!result) result = cuMemCreate(&handle, granule, &prop, 0);
  return result ? result : cuMemRelease(handle);
}

static CUresult of_place(CUmemLocationType type) {
  CUmemAllocationProp prop = plain();
  prop.location.type = type;
  prop.location.id = 0;
  return create(prop);
}

static CUresult of_handle(CUmemAllocationHandleType type) {
  CUmemAllocationProp prop = plain();
  prop.requestedHandleTypes = type;
  return create(prop);
}

static CUresult pool_of(CUmemLocationType type) {
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = type;
  CUmemoryPool pool;
  CUresult result = cuMemPoolCreate(&pool, &props);
  return result ? result : cuMemPoolDestroy(pool);
}

static CUresult array_with(unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR of = {};
  of.Width = of.Height = 1024;
  of.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  of.NumChannels = 1;
  of.Flags = flags;
  CUarray array;
  CUresult result = cuArray3DCreate(&array, &of);
  return result ? result : cuArrayDestroy(array);
}

static CUresult dma_buffer() {
  CUdeviceptr memory;
  DRIVER(cuMemAlloc(&memory, 2 << 20));
  int descriptor;
  CUresult result = cuMemGetHandleForAddressRange(&descriptor, memory, 2 << 20,
                                                  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  DRIVER(cuMemFree(memory));
  return result;
}

static CUresult multicast() {
  CUmulticastObjectProp prop = {};
  prop.numDevices = 1;
  prop.size = 2 << 20;
  size_t granule;
  return cuMulticastGetGranularity(&granule, &prop, CU_MULTICAST_GRANULARITY_MINIMUM);
}

int main() {
  DRIVER(cuInit(0));
  DRIVER(cuDeviceGet(&device, 0));
  CUcontext context;
  DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER(cuCtxSetCurrent(context));
  COMPARE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, create(plain()));
  COMPARE(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
          of_handle(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  COMPARE(HANDLE_TYPE_FABRIC_SUPPORTED, of_handle(CU_MEM_HANDLE_TYPE_FABRIC));
  COMPARE(MEMORY_POOLS_SUPPORTED, pool_of(CU_MEM_LOCATION_TYPE_DEVICE));
  COMPARE(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, of_place(CU_MEM_LOCATION_TYPE_HOST_NUMA));
  COMPARE(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, of_place(CU_MEM_LOCATION_TYPE_HOST));
  COMPARE(HOST_NUMA_MEMORY_POOLS_SUPPORTED, pool_of(CU_MEM_LOCATION_TYPE_HOST_NUMA));
  COMPARE(HOST_MEMORY_POOLS_SUPPORTED, pool_of(CU_MEM_LOCATION_TYPE_HOST));
  COMPARE(SPARSE_CUDA_ARRAY_SUPPORTED, array_with(CUDA_ARRAY3D_SPARSE));
  COMPARE(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, array_with(CUDA_ARRAY3D_DEFERRED_MAPPING));
  COMPARE(DMA_BUF_SUPPORTED, dma_buffer());
  COMPARE(MULTICAST_SUPPORTED, multicast());
  DRIVER(cuDevicePrimaryCtxRelease(device));
  return claimed_and_refused ? 2 : 0;
}
