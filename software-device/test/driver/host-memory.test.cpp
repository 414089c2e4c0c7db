// Pinned, registered and managed host memory.
#include <sys/mman.h>

#include "support.h"

namespace {

void pinned_memory_is_reached_by_kernels(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  void *pinned;
  OK(cuMemHostAlloc(&pinned, 100, CU_MEMHOSTALLOC_PORTABLE));
  auto *value = static_cast<uint32_t *>(pinned);
  CUdeviceptr address;
  OK(cuMemHostGetDevicePointer_v2(&address, pinned, 0));
  uint32_t number = 1234;
  void *parameters[] = {&address, &number};
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(*value, 1234);
  unsigned flags;
  OK(cuMemHostGetFlags(&flags, pinned));
  assert_true(flags & CU_MEMHOSTALLOC_PORTABLE);
  CUmemorytype type;
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  assert_int_equal(type, CU_MEMORYTYPE_HOST);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(value + 1));
  OK(cuMemFreeHost(pinned));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
}

void registered_memory_is_reached_while_it_is(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  std::vector<uint32_t> own(5000);
  void *start = own.data() + 3;
  OK(cuMemHostRegister_v2(start, 4000, 0));
  EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(own.data(), 100, 0));
  EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(own.data() + 100, 100, 0));
  CUdeviceptr address = reinterpret_cast<CUdeviceptr>(start);
  uint32_t number = 99;
  void *parameters[] = {&address, &number};
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(own[3], 99);
  EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(own.data()));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(own.data() + 10));
  OK(cuMemHostUnregister(start));
  EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(start));
  // Now it is nobody's, and a kernel that writes there fails.
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

// Pieces of one page, each registered by itself, whichever comes first.
void registered_memory_shares_pages(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  constexpr size_t kPage = 4096;
  void *pages =
      mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto *bytes = static_cast<uint8_t *>(pages);
  struct Piece {
    size_t at, size;
  };
  const Piece pieces[] = {{0, 20}, {20, 80}, {100, 8000}, {8100, 20}, {8120, 4000}};
  for (bool backwards : {false, true}) {
    std::vector<Piece> order(pieces, pieces + 5);
    if (backwards) order = {pieces[4], pieces[3], pieces[2], pieces[1], pieces[0]};
    for (const Piece &piece : order) OK(cuMemHostRegister_v2(bytes + piece.at, piece.size, 0));
    EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(bytes + 96, 8, 0));
    // The second is gone after the first round, and all others are as they were.
    for (int round = 0; round < 2; round++) {
      for (const Piece &piece : pieces) {
        if (round == 1 && &piece == &pieces[1]) continue;
        for (size_t at : {piece.at, piece.at + piece.size - 4}) {
          CUdeviceptr address = reinterpret_cast<CUdeviceptr>(bytes + at);
          auto number = static_cast<uint32_t>(at + 1);
          void *parameters[] = {&address, &number};
          OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
          OK(cuCtxSynchronize());
          assert_memory_equal(bytes + at, &number, 4);
        }
      }
      if (round == 0) OK(cuMemHostUnregister(bytes + pieces[1].at));
    }
    for (const Piece &piece : pieces)
      if (&piece != &pieces[1]) OK(cuMemHostUnregister(bytes + piece.at));
  }
  munmap(bytes + kPage, kPage);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(bytes + 100, 2 * kPage, 0));
  OK(cuMemHostRegister_v2(bytes + 100, kPage - 100, 0));
  OK(cuMemHostUnregister(bytes + 100));
  munmap(bytes, 4 * kPage);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(bytes + 100, 1, 0));
  void *pinned;
  OK(cuMemHostAlloc(&pinned, 100, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(pinned));
  OK(cuMemFreeHost(pinned));
}

void managed_memory_is_everybodys(void **) {
  CUfunction add_one = kernel(load_kernels(), "add_one");
  CUdeviceptr managed;
  OK(cuMemAllocManaged(&managed, 4000, CU_MEM_ATTACH_GLOBAL));
  auto *values = reinterpret_cast<uint32_t *>(managed);
  for (uint32_t i = 0; i < 1000; i++) values[i] = i;
  uint32_t count = 1000;
  void *parameters[] = {&managed, &count};
  OK(cuMemPrefetchAsync_v2(managed, 4000, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, nullptr));
  OK(cuLaunchKernel(add_one, 8, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuCtxSynchronize());
  for (uint32_t i = 0; i < 1000; i++) assert_int_equal(values[i], i + 1);
  unsigned int is_managed = 0;
  OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed + 8));
  assert_int_equal(is_managed, 1);
  OK(cuMemFree_v2(managed));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(pinned_memory_is_reached_by_kernels),
      TEST(registered_memory_is_reached_while_it_is),
      TEST(registered_memory_shares_pages),
      TEST(managed_memory_is_everybodys),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
