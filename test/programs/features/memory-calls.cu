// Advice for managed memory and what ranges of it tell; default and current pools and who may use
// them; mappings that are described and exported; handles of other processes' memory.
// flags: -lcuda
#include <unistd.h>

#include "../check.h"
#include "../check_driver.h"

int main() {
  CHECK(cudaFree(nullptr));
  constexpr size_t kBytes = 1 << 20;
  const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, {0}},
                      host = {CU_MEM_LOCATION_TYPE_HOST, {0}},
                      nowhere = {CU_MEM_LOCATION_TYPE_DEVICE, {1000}};

  printf("-- managed memory\n");
  CUdeviceptr managed;
  DRIVER(cuMemAllocManaged(&managed, kBytes, CU_MEM_ATTACH_GLOBAL));
  SHOW_DRIVER(cuMemAdvise(managed, kBytes / 2, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  SHOW_DRIVER(cuMemAdvise(managed, kBytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
  SHOW_DRIVER(cuMemAdvise(managed, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
  SHOW_DRIVER(cuMemAdvise(managed, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, nowhere));
  SHOW_DRIVER(cuMemAdvise(managed, kBytes + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  SHOW_DRIVER(cuMemAdvise(managed, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  SHOW_DRIVER(cuMemAdvise(managed, kBytes, static_cast<CUmem_advise>(77), here));
  int read_mostly = 9, preferred = 9, accessed[3] = {9, 9, 9};
  void *data[] = {&read_mostly, &preferred, accessed};
  size_t sizes[] = {sizeof read_mostly, sizeof preferred, sizeof accessed};
  CUmem_range_attribute wanted[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                    CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                    CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
  for (size_t size : {kBytes / 2, kBytes}) {
    SHOW_DRIVER(cuMemRangeGetAttributes(data, sizes, wanted, 3, managed, size));
    printf("read mostly %d, at best %d, accessed by %d %d %d\n", read_mostly, preferred,
           accessed[0], accessed[1], accessed[2]);
  }
  SHOW_DRIVER(cuMemRangeGetAttributes(data, sizes, wanted, 0, managed, kBytes));
  sizes[0] = 2;
  SHOW_DRIVER(cuMemRangeGetAttributes(data, sizes, wanted, 3, managed, kBytes));
  sizes[0] = 4;
  SHOW_DRIVER(cuMemRangeGetAttributes(data, sizes, wanted, 3, managed, kBytes * 2));
  SHOW_DRIVER(cuMemPrefetchAsync(managed, kBytes, here, 0, nullptr));
  SHOW_DRIVER(cuMemPrefetchAsync(managed, kBytes, nowhere, 0, nullptr));
  SHOW_DRIVER(cuMemPrefetchAsync(managed, kBytes, here, 1, nullptr));
  CUdeviceptr parts[] = {managed, managed + kBytes / 2};
  size_t part_sizes[] = {kBytes / 2, kBytes / 2}, first = 0;
  CUmemLocation where = here;
  CUstream stream;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SHOW_DRIVER(cuMemPrefetchBatchAsync(parts, part_sizes, 2, &where, &first, 1, 0, stream));
  SHOW_DRIVER(cuMemPrefetchBatchAsync(parts, part_sizes, 0, &where, &first, 1, 0, stream));
  SHOW_DRIVER(cuMemPrefetchBatchAsync(parts, part_sizes, 2, &where, &first, 1, 1, stream));
  SHOW_DRIVER(cuMemDiscardBatchAsync(parts, part_sizes, 2, 0, stream));
  SHOW_DRIVER(
      cuMemDiscardAndPrefetchBatchAsync(parts, part_sizes, 2, &where, &first, 1, 0, stream));
  SHOW_DRIVER(cuStreamAttachMemAsync(stream, managed, 0, CU_MEM_ATTACH_SINGLE));
  SHOW_DRIVER(cuStreamAttachMemAsync(stream, managed, 0, 0x80));
  SHOW_DRIVER(cuStreamSynchronize(stream));

  printf("-- pools\n");
  CUmemoryPool usual = nullptr, by_place = nullptr, current = nullptr, own = nullptr;
  CUmemLocation place = here;
  DRIVER(cuDeviceGetDefaultMemPool(&usual, 0));
  SHOW_DRIVER(cuMemGetDefaultMemPool(&by_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  printf("the device's: %d\n", by_place == usual);
  SHOW_DRIVER(cuMemGetMemPool(&current, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  printf("the device's: %d\n", current == usual);
  place = nowhere;
  SHOW_DRIVER(cuMemGetMemPool(&current, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  place = here;
  SHOW_DRIVER(cuMemGetMemPool(nullptr, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  CUmemPoolProps of_managed = {};
  of_managed.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  of_managed.location = place;
  SHOW_DRIVER(cuMemGetDefaultMemPool(&current, &place, CU_MEM_ALLOCATION_TYPE_MANAGED));
  SHOW_DRIVER(cuMemGetMemPool(&current, &place, CU_MEM_ALLOCATION_TYPE_MANAGED));
  SHOW_DRIVER(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_MANAGED, usual));
  SHOW_DRIVER(cuMemPoolCreate(&current, &of_managed));
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = here;
  DRIVER(cuMemPoolCreate(&own, &properties));
  SHOW_DRIVER(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, own));
  SHOW_DRIVER(cuMemGetMemPool(&current, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  printf("our own: %d\n", current == own);
  DRIVER(cuDeviceGetMemPool(&current, 0));
  printf("our own: %d\n", current == own);
  SHOW_DRIVER(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, nullptr));
  SHOW_DRIVER(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, usual));
  CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  SHOW_DRIVER(cuMemPoolSetAccess(own, &access, 1));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  SHOW_DRIVER(cuMemPoolSetAccess(own, &access, 1));
  access = {nowhere, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  SHOW_DRIVER(cuMemPoolSetAccess(own, &access, 1));
  SHOW_DRIVER(cuMemPoolSetAccess(own, nullptr, 1));
  SHOW_DRIVER(cuMemPoolDestroy(own));

  printf("-- memory of its own\n");
  CUmemAllocationProp of = {}, told = {};
  of.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  of.location = here;
  of.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granule = 0;
  DRIVER(cuMemGetAllocationGranularity(&granule, &of, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory, imported;
  DRIVER(cuMemCreate(&memory, granule, &of, 0));
  SHOW_DRIVER(cuMemGetAllocationPropertiesFromHandle(&told, memory));
  printf("type %d, place %d %d, handles %d\n", told.type, told.location.type, told.location.id,
         told.requestedHandleTypes);
  SHOW_DRIVER(cuMemGetAllocationPropertiesFromHandle(nullptr, memory));
  int file = -1;
  SHOW_DRIVER(
      cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  printf("a descriptor: %d\n", file > 2);
  SHOW_DRIVER(
      cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
  SHOW_DRIVER(cuMemImportFromShareableHandle(&imported,
                                             reinterpret_cast<void *>(static_cast<intptr_t>(file)),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  SHOW_DRIVER(cuMemRelease(imported));
  SHOW_DRIVER(cuMemRelease(memory));

  printf("-- handles for other processes\n");
  CUdeviceptr plain, opened;
  CUipcMemHandle handle = {};
  DRIVER(cuMemAlloc(&plain, kBytes));
  SHOW_DRIVER(cuIpcGetMemHandle(&handle, plain));
  // They are for other processes only.
  SHOW_DRIVER(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  SHOW_DRIVER(cuIpcOpenMemHandle(&opened, handle, 0));
  SHOW_DRIVER(cuIpcCloseMemHandle(plain));

  DRIVER(cuMemFree(plain));
  DRIVER(cuMemFree(managed));
  DRIVER(cuStreamDestroy(stream));
  return 0;
}
