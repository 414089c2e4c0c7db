// Memory freed while a kernel reads it: the kernel reads on to its end, whatever kind of memory it
// is. flags: -lcuda
#include <cuda.h>
#include <sys/mman.h>
#include <cstdio>
#include <cstring>

#include "../check.h"
#include "../check_driver.h"

constexpr int rounds = 1000000;
constexpr size_t sizes[] = {143, (2 << 20) + 143};

const char module_text[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 1 .b8 variable[143];
)";

// Long enough for the host to come to the free.
__global__ void count_sevens(const volatile unsigned char *byte, unsigned *sevens) {
  unsigned count = 0;
  for (int i = 0; i < rounds; i++) count += *byte == 7;
  *sevens += count;
}
__global__ void count_texels(cudaTextureObject_t texture, unsigned *sevens) {
  unsigned count = 0;
  for (int i = 0; i < rounds; i++) count += tex1D<unsigned char>(texture, i & 31) == 7;
  *sevens += count;
}

int main() {
  unsigned *sevens, expected = 0;
  CHECK(cudaMalloc(&sevens, sizeof *sevens));
  CHECK(cudaMemset(sevens, 0, sizeof *sevens));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto read = [&](const void *at, size_t size) {
    count_sevens<<<1, 1, 0, stream>>>(static_cast<const unsigned char *>(at) + size - 1, sevens);
    expected += rounds;
    return cudaGetLastError();
  };
  auto check = [&](const char *what) {
    unsigned got;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&got, sevens, sizeof got, cudaMemcpyDeviceToHost));
    printf("%s: %s\n", what, got == expected ? "read to the end" : "WRONG");
    if (got != expected) exit(1);
  };

  for (size_t size : sizes) {
    unsigned char *bytes;
    CHECK(cudaMalloc(&bytes, size));
    CHECK(cudaMemset(bytes, 7, size));
    CHECK(cudaDeviceSynchronize());
    CHECK(read(bytes, size));
    CHECK(cudaFree(bytes));
    unsigned char *next;  // not the same memory, as long as it is read
    CHECK(cudaMallocAsync(&next, size, nullptr));
    CHECK(cudaMemset(next, 8, size));
    CHECK(cudaFree(next));
    check("device memory");

    CHECK(cudaMallocAsync(&bytes, size, stream));
    CHECK(cudaMemsetAsync(bytes, 7, size, stream));
    CHECK(read(bytes, size));
    CHECK(cudaFreeAsync(bytes, stream));
    check("memory of a stream");

    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMallocFromPoolAsync(&bytes, size, pool, stream));
    CHECK(cudaMemsetAsync(bytes, 7, size, stream));
    CHECK(read(bytes, size));
    CHECK(cudaFreeAsync(bytes, stream));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaMemPoolDestroy(pool));
    check("memory of a pool");

    CHECK(cudaMallocManaged(&bytes, size));
    memset(bytes, 7, size);
    CHECK(read(bytes, size));
    CHECK(cudaFree(bytes));
    check("managed memory");

    CHECK(cudaMallocHost(&bytes, size));
    memset(bytes, 7, size);
    CHECK(read(bytes, size));
    CHECK(cudaFreeHost(bytes));
    check("pinned memory");

    void *pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 7, size);
    void *mapped;
    CHECK(cudaHostRegister(pages, size, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&mapped, pages, 0));
    CHECK(read(mapped, size));
    CHECK(cudaHostUnregister(pages));
    munmap(pages, size);
    check("registered memory");

    // A graph that allocates; its memory is freed outside of it.
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMallocAsync(&bytes, size, stream));
    CHECK(cudaMemsetAsync(bytes, 7, size, stream));
    CHECK(read(bytes, size));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(bytes));
    CHECK(cudaDeviceGraphMemTrim(0));
    check("memory of a graph");
  }

  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t page;
  DRIVER(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at;
  DRIVER(cuMemAddressReserve(&at, page, 0, 0, 0));
  DRIVER(cuMemCreate(&handle, page, &properties, 0));
  DRIVER(cuMemMap(at, page, 0, handle, 0));
  DRIVER(cuMemSetAccess(at, page, &access, 1));
  DRIVER(cuMemsetD8(at, 7, page));
  CHECK(cudaDeviceSynchronize());
  CHECK(read(reinterpret_cast<void *>(at), 143));
  DRIVER(cuMemUnmap(at, page));
  DRIVER(cuMemRelease(handle));
  DRIVER(cuMemAddressFree(at, page));
  check("a mapping");

  CUmodule module;
  size_t size;
  DRIVER(cuModuleLoadData(&module, module_text));
  DRIVER(cuModuleGetGlobal(&at, &size, module, "variable"));
  DRIVER(cuMemsetD8(at, 7, size));
  CHECK(cudaDeviceSynchronize());
  CHECK(read(reinterpret_cast<void *>(at), size));
  DRIVER(cuModuleUnload(module));
  check("a variable of a module");

  for (bool mipmapped : {false, true}) {
    unsigned char row[64];
    memset(row, 7, sizeof row);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
    cudaArray_t array;
    cudaMipmappedArray_t levels;
    if (mipmapped) {
      CHECK(cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(64, 0, 0), 2));
      CHECK(cudaGetMipmappedArrayLevel(&array, levels, 1));
    } else {
      CHECK(cudaMallocArray(&array, &format, 32));
    }
    CHECK(cudaMemcpy2DToArray(array, 0, 0, row, 32, 32, 1, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());  // the copy may end later, and the stream does not wait for it
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc settings = {};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &settings, nullptr));
    count_texels<<<1, 1, 0, stream>>>(texture, sevens);
    expected += rounds;
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(mipmapped ? cudaFreeMipmappedArray(levels) : cudaFreeArray(array));
    check(mipmapped ? "a mipmapped array" : "an array");
  }
  return 0;
}
