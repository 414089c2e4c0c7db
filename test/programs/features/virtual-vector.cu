// Vectors that grow in place by mapping more memory behind themselves, move when their addresses
// are used up, and share a fragmented pool of pieces; and what a device answers to wrong requests.
// flags: -lcuda
#include <cstdio>
#include <vector>

#include "../check.h"
#include "../check_driver.h"

static CUmemAllocationProp properties;
static CUmemAccessDesc access_all;
static size_t page;

// Pieces of memory that vectors take from and give back to.
static std::vector<CUmemGenericAllocationHandle> pieces;

static CUmemGenericAllocationHandle take_piece() {
  CUmemGenericAllocationHandle piece;
  if (pieces.empty()) {
    DRIVER(cuMemCreate(&piece, page, &properties, 0));
  } else {
    piece = pieces.back();
    pieces.pop_back();
  }
  return piece;
}

class Vector {
 public:
  explicit Vector(size_t pages) : room_(pages) {
    DRIVER(cuMemAddressReserve(&base_, pages * page, 0, 0, 0));
  }
  ~Vector() {
    clear();
    DRIVER(cuMemAddressFree(base_, room_ * page));
  }
  void grow() {
    if (held_.size() == room_) move();
    CUmemGenericAllocationHandle piece = take_piece();
    place(held_.size(), piece);
    held_.push_back(piece);
  }
  void clear() {
    CHECK(cudaDeviceSynchronize());
    if (!held_.empty()) DRIVER(cuMemUnmap(base_, held_.size() * page));
    pieces.insert(pieces.end(), held_.begin(), held_.end());
    held_.clear();
  }
  unsigned *data() const { return reinterpret_cast<unsigned *>(base_); }
  size_t size() const { return held_.size() * page / sizeof(unsigned); }

 private:
  void place(size_t i, CUmemGenericAllocationHandle piece) {
    DRIVER(cuMemMap(base_ + i * page, page, 0, piece, 0));
    DRIVER(cuMemSetAccess(base_ + i * page, page, &access_all, 1));
  }
  // To twice the addresses, without copying a byte.
  void move() {
    CUdeviceptr old = base_;
    DRIVER(cuMemAddressReserve(&base_, 2 * room_ * page, 0, 0, 0));
    CHECK(cudaDeviceSynchronize());  // nothing may be using what is unmapped
    DRIVER(cuMemUnmap(old, room_ * page));
    for (size_t i = 0; i < held_.size(); i++) place(i, held_[i]);
    DRIVER(cuMemAddressFree(old, room_ * page));
    room_ *= 2;
  }
  CUdeviceptr base_ = 0;
  size_t room_;
  std::vector<CUmemGenericAllocationHandle> held_;
};

__global__ void fill(unsigned *values, size_t from, size_t to, unsigned seed) {
  for (size_t i = from + blockIdx.x * blockDim.x + threadIdx.x; i < to;
       i += size_t{blockDim.x} * gridDim.x)
    values[i] = static_cast<unsigned>(i) ^ seed;
}
__global__ void count_wrong(const unsigned *values, size_t size, unsigned seed, unsigned *wrong) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size;
       i += size_t{blockDim.x} * gridDim.x)
    if (values[i] != (static_cast<unsigned>(i) ^ seed)) atomicAdd(wrong, 1);
}

static size_t free_bytes() {
  size_t free, total;
  CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

int main() {
  CHECK(cudaFree(nullptr));
  int supported;
  DRIVER(
      cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  printf("supported: %d\n", supported);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access_all = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  DRIVER(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  size_t before = free_bytes();
  unsigned *wrong;
  CHECK(cudaMalloc(&wrong, sizeof *wrong));
  size_t with_counter = free_bytes();
  {
    Vector a(2), b(1);
    for (unsigned round = 0; round < 5; round++) {
      for (Vector *v : {&a, &b}) {
        size_t old = v->size();
        v->grow();
        fill<<<4, 64>>>(v->data(), old, v->size(), v == &a ? 1 : 2);
        CHECK(cudaGetLastError());
      }
    }
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    count_wrong<<<4, 64>>>(a.data(), a.size(), 1, wrong);
    count_wrong<<<4, 64>>>(b.data(), b.size(), 2, wrong);
    unsigned count;
    CHECK(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
    printf("two vectors of 5 pages each, moved as they grew: %u wrong\n", count);
    printf("memory: %zu pages\n", (with_counter - free_bytes()) / page);

    // Pieces of one go to the other, in another order.
    a.clear();
    for (int i = 0; i < 5; i++) b.grow();
    fill<<<4, 64>>>(b.data(), 0, b.size(), 3);
    std::vector<unsigned> host(b.size());
    CHECK(cudaMemcpy(host.data(), b.data(), b.size() * sizeof(unsigned), cudaMemcpyDeviceToHost));
    count = 0;
    for (size_t i = 0; i < host.size(); i++) count += host[i] != (static_cast<unsigned>(i) ^ 3);
    printf("10 pages of it: %u wrong\n", count);
    printf("memory: %zu pages\n", (with_counter - free_bytes()) / page);
    SHOW(cudaMemset(a.data(), 0, 4));
    cudaGetLastError();
    SHOW(cudaMemset(b.data(), 0, 10 * page));
    SHOW(cudaMemset(b.data(), 0, 10 * page + 1));
    cudaGetLastError();
  }
  for (CUmemGenericAllocationHandle piece : pieces) DRIVER(cuMemRelease(piece));
  printf("all given back: %d\n", free_bytes() == with_counter);

  // Holes: every other page of a reservation, then one piece of memory at several places.
  CUdeviceptr holes, hint;
  constexpr int count = 16;
  DRIVER(cuMemAddressReserve(&holes, count * page, 0, 0, 0));
  CUmemGenericAllocationHandle one;
  DRIVER(cuMemCreate(&one, 2 * page, &properties, 0));
  for (int i = 0; i < count; i += 2) {
    DRIVER(cuMemMap(holes + i * page, page, i % 4 ? page : 0, one, 0));
    DRIVER(cuMemSetAccess(holes + i * page, page, &access_all, 1));
  }
  for (int i = 0; i < 4; i += 2)
    CHECK(cudaMemset(reinterpret_cast<void *>(holes + i * page), 0x10 + i, page));
  int good = 0;
  for (int i = 0; i < count; i += 2) {
    unsigned char byte;
    CHECK(cudaMemcpy(&byte, reinterpret_cast<void *>(holes + (i + 1) * page - 1), 1,
                     cudaMemcpyDeviceToHost));
    good += byte == 0x10 + i % 4;
  }
  printf("pages seen through their places: %d\n", good);
  SHOW_DRIVER(cuMemMap(holes, page, 0, one, 0));
  SHOW_DRIVER(cuMemMap(holes + page, 2 * page, 0, one, 0));
  SHOW_DRIVER(cuMemMap(holes + page, page, 2 * page, one, 0));
  SHOW_DRIVER(cuMemMap(holes + (count - 1) * page, 2 * page, 0, one, 0));
  SHOW_DRIVER(cuMemMap(holes + page, page, 0, one + 1, 0));
  SHOW_DRIVER(cuMemMap(holes + page, 4096, 0, one, 0));
  SHOW_DRIVER(cuMemUnmap(holes + page, page));
  SHOW_DRIVER(cuMemUnmap(holes, 2 * page));
  SHOW_DRIVER(cuMemSetAccess(holes, 2 * page, &access_all, 1));
  SHOW_DRIVER(cuMemAddressFree(holes, count * page));
  SHOW_DRIVER(cuMemCreate(&one, page + 1, &properties, 0));
  SHOW_DRIVER(cuMemAddressReserve(&hint, page + 1, 0, 0, 0));
  SHOW_DRIVER(cuMemAddressReserve(&hint, page, 3, 0, 0));
  unsigned long long flags;
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  DRIVER(cuMemGetAccess(&flags, &here, holes));
  printf("access to a page: %llu\n", flags);
  CUmemAccessDesc none = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  DRIVER(cuMemSetAccess(holes, page, &none, 1));
  SHOW(cudaMemset(reinterpret_cast<void *>(holes), 0, 1));
  cudaGetLastError();
  CUdeviceptr start;
  size_t size;
  DRIVER(cuMemGetAddressRange(&start, &size, holes + 2 * page + 100));
  printf("range: page %d, %d pages\n", static_cast<int>((start - holes) / page),
         static_cast<int>(size / page));
  SHOW_DRIVER(cuMemGetAddressRange(&start, &size, holes + page));
  DRIVER(cuMemRelease(one));
  SHOW_DRIVER(cuMemRelease(one));
  for (int i = 0; i < count; i += 2) DRIVER(cuMemUnmap(holes + i * page, page));
  DRIVER(cuMemAddressFree(holes, count * page));
  // Freed addresses are there to be asked for again.
  DRIVER(cuMemAddressReserve(&hint, count * page, 0, holes, 0));
  printf("the same addresses again: %d\n", hint == holes);
  DRIVER(cuMemAddressFree(hint, count * page));
  CHECK(cudaFree(wrong));
  printf("nothing is left: %d\n", free_bytes() == before);
  return 0;
}
