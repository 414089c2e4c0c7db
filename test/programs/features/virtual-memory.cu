// Addresses and memory handled apart: an array that grows in place, and one page at two addresses.
// flags: -lcuda
#include <cuda.h>
#include <cstdio>

#include "../check.h"
#include "../check_driver.h"

__global__ void count_up(unsigned *values, unsigned from, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[from + i] = from + i;
}

int main() {
  CHECK(cudaFree(nullptr));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t page;
  DRIVER(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  constexpr int pages = 4;
  CUdeviceptr base;
  DRIVER(cuMemAddressReserve(&base, (pages + 1) * page, 0, 0, 0));
  CUmemGenericAllocationHandle handles[pages];
  const unsigned per_page = static_cast<unsigned>(page / sizeof(unsigned));
  auto *values = reinterpret_cast<unsigned *>(base);
  for (unsigned i = 0; i < pages; i++) {
    DRIVER(cuMemCreate(&handles[i], page, &properties, 0));
    DRIVER(cuMemMap(base + i * page, page, 0, handles[i], 0));
    DRIVER(cuMemSetAccess(base + i * page, page, &access, 1));
    count_up<<<(per_page + 255) / 256, 256>>>(values, i * per_page, per_page);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  for (unsigned i : {0u, per_page - 1, per_page, 4 * per_page - 1}) {
    unsigned value;
    CHECK(cudaMemcpy(&value, values + i, 4, cudaMemcpyDeviceToHost));
    if (value != i) {
      fprintf(stderr, "element %u is %u\n", i, value);
      return 1;
    }
  }
  printf("an array grew to %d pages in place\n", pages);

  // The first page once more, behind the last.
  DRIVER(cuMemMap(base + pages * page, page, 0, handles[0], 0));
  DRIVER(cuMemSetAccess(base + pages * page, page, &access, 1));
  CHECK(cudaMemset(values, 0xAB, 4));
  unsigned seen;
  CHECK(cudaMemcpy(&seen, values + pages * per_page, 4, cudaMemcpyDeviceToHost));
  printf("written at one address, read at another: %x\n", seen);

  DRIVER(cuMemUnmap(base + 2 * page, page));
  SHOW(cudaMemset(values + 2 * per_page, 0, 4));
  cudaGetLastError();
  CUmemGenericAllocationHandle kept;
  DRIVER(cuMemRetainAllocationHandle(&kept, values));
  printf("the handle of an address is that of its memory: %d\n", kept == handles[0]);
  DRIVER(cuMemRelease(kept));
  DRIVER(cuMemUnmap(base, 2 * page));
  DRIVER(cuMemUnmap(base + 3 * page, 2 * page));
  for (CUmemGenericAllocationHandle handle : handles) DRIVER(cuMemRelease(handle));
  DRIVER(cuMemAddressFree(base, (pages + 1) * page));
  return 0;
}
