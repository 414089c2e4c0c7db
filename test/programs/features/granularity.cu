// What cuMemGetAllocationGranularity says holds: sizes, addresses and offsets are multiples of it,
// and as much memory can be had in such pieces as is free. flags: -lcuda
#include <cuda.h>
#include <cstdio>
#include <vector>

#include "../check.h"
#include "../check_driver.h"

namespace {

constexpr size_t MiB = 1 << 20;

CUmemAllocationProp properties = {};

size_t free_now() {
  size_t free, total;
  DRIVER(cuMemGetInfo(&free, &total));
  return free;
}

// How many pieces of a size there are, all made and then given back.
size_t count_pieces(size_t size) {
  std::vector<CUmemGenericAllocationHandle> pieces;
  CUmemGenericAllocationHandle piece;
  CUresult result;
  while ((result = cuMemCreate(&piece, size, &properties, 0)) == CUDA_SUCCESS)
    pieces.push_back(piece);
  printf("no more: %d\n", result);
  for (CUmemGenericAllocationHandle each : pieces) DRIVER(cuMemRelease(each));
  return pieces.size();
}

}  // namespace

int main() {
  setenv("SOFTWARE_DEVICE_MEMORY", "320M", 0);
  setenv("OUTBOARD_MEMORY", "256M", 0);
  CHECK(cudaFree(nullptr));
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t page, recommended;
  DRIVER(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  DRIVER(cuMemGetAllocationGranularity(&recommended, &properties,
                                       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  printf("pieces of %zu KiB, better %zu KiB\n", page >> 10, recommended >> 10);

  CUdeviceptr at, other;
  CUmemGenericAllocationHandle piece, refused;
  printf("half a piece: %d\n", cuMemCreate(&refused, page / 2, &properties, 0));
  printf("one and a half: %d\n", cuMemCreate(&refused, page + page / 2, &properties, 0));
  printf("addresses of half a piece: %d\n", cuMemAddressReserve(&at, page / 2, 0, 0, 0));
  DRIVER(cuMemAddressReserve(&at, 4 * page, 0, 0, 0));
  DRIVER(cuMemAddressReserve(&other, page, 4 * page, 0, 0));
  printf("aligned: %d %d\n", at % page == 0, other % (4 * page) == 0);
  DRIVER(cuMemAddressFree(other, page));

  // Counted from where it is told in any case: free memory may be told in pieces of 2 MiB.
  const size_t least = page > 2 * MiB ? page : 2 * MiB, before = free_now();
  DRIVER(cuMemCreate(&piece, 2 * page, &properties, 0));
  std::vector<CUmemGenericAllocationHandle> rest(least / page * 2 - 2);
  for (CUmemGenericAllocationHandle &each : rest) DRIVER(cuMemCreate(&each, page, &properties, 0));
  printf("taken: %d\n", before - free_now() == 2 * least);
  for (CUmemGenericAllocationHandle each : rest) DRIVER(cuMemRelease(each));

  printf("half a piece further: %d\n", cuMemMap(at + page / 2, page, 0, piece, 0));
  printf("half a piece into it: %d\n", cuMemMap(at, page, page / 2, piece, 0));
  DRIVER(cuMemMap(at, page, page, piece, 0));
  DRIVER(cuMemMap(at + page, 2 * page, 0, piece, 0));
  const CUmemAccessDesc all = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemAccessDesc nothing = all;
  nothing.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  DRIVER(cuMemSetAccess(at, 3 * page, &all, 1));
  DRIVER(cuMemsetD8(at, 1, page));
  DRIVER(cuMemsetD8(at + page, 2, page));
  unsigned char ends[4];
  for (int i = 0; i < 4; i++) DRIVER(cuMemcpyDtoH(&ends[i], at + (i + 1) / 2 * page - i % 2, 1));
  printf("%d %d | %d %d\n", ends[0], ends[1], ends[2], ends[3]);
  DRIVER(cuMemcpyDtoH(ends, at + 2 * page, 1));
  printf("the second half, where it is mapped again: %d\n", ends[0]);
  printf("half a piece closed: %d\n", cuMemSetAccess(at + page / 2, page, &nothing, 1));
  DRIVER(cuMemSetAccess(at + 2 * page, page, &nothing, 1));
  printf("up to what is closed: %d, beyond: %d\n", cuMemsetD8(at + page, 3, page),
         cuMemsetD8(at + page, 3, page + 1));
  DRIVER(cuMemUnmap(at, 3 * page));
  DRIVER(cuMemRelease(piece));
  DRIVER(cuMemAddressFree(at, 4 * page));

  DRIVER(cuCtxSynchronize());
  printf("all is back: %d\n", free_now() == before);
  // Large pieces, or there are too many.
  const size_t piece_bytes = page > 4 * MiB ? page : 4 * MiB;
  printf("all of it in pieces: %d\n", count_pieces(piece_bytes) == free_now() / piece_bytes);
  return 0;
}
