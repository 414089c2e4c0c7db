// Copies and sets by every call of the driver: between arrays and memory, in planes and boxes,
// between contexts, with old entry points, and what they refuse.
// flags: -lcuda -ldl
#include <numeric>
#include <vector>

#include "../check.h"
#include "../check_driver.h"

namespace {

unsigned digest(CUdeviceptr memory, size_t bytes) {
  std::vector<unsigned char> host(bytes);
  DRIVER(cuMemcpyDtoH(host.data(), memory, bytes));
  unsigned sum = 0;
  for (unsigned char byte : host) sum = sum * 31 + byte;
  return sum;
}

}  // namespace

int main() {
  CHECK(cudaFree(nullptr));
  CUcontext context;
  DRIVER(cuCtxGetCurrent(&context));
  constexpr size_t kBytes = 64 << 10;
  CUdeviceptr a, b;
  DRIVER(cuMemAlloc(&a, kBytes));
  DRIVER(cuMemAlloc(&b, kBytes));
  std::vector<unsigned char> host(kBytes);
  for (size_t i = 0; i < kBytes; i++) host[i] = static_cast<unsigned char>(i * 7 + i / 256);
  DRIVER(cuMemcpyHtoD(a, host.data(), kBytes));
  DRIVER(cuMemsetD8(b, 0, kBytes));
  const auto told = [&](const char *what) {
    printf("%s: %08x %08x\n", what, digest(a, kBytes), digest(b, kBytes));
  };
  told("as they begin");

  printf("-- memory\n");
  SHOW_DRIVER(cuMemcpyDtoD(b + 100, a + 200, 3000));
  SHOW_DRIVER(cuMemcpyDtoD(b, a, 0));
  SHOW_DRIVER(cuMemcpyDtoD(b + 1, a, kBytes));
  SHOW_DRIVER(cuMemcpyDtoD(0, a, 8));
  told("memory to memory");
  SHOW_DRIVER(cuMemsetD16(b + 8000, 0xbeef, 500));
  SHOW_DRIVER(cuMemsetD16(b + 8001, 0xbeef, 500));
  SHOW_DRIVER(cuMemsetD16(b, 1, kBytes));
  SHOW_DRIVER(cuMemsetD2D16(b + 16384, 256, 0x1234, 40, 20));
  SHOW_DRIVER(cuMemsetD2D16(b + 16384, 70, 0x1234, 40, 20));
  SHOW_DRIVER(cuMemsetD2D32(b + 32768, 512, 0xcafe0001, 33, 17));
  SHOW_DRIVER(cuMemsetD2D32(b + 32770, 512, 0xcafe0001, 33, 17));
  SHOW_DRIVER(cuMemsetD2D16Async(b + 45056, 128, 0x4321, 9, 9, nullptr));
  SHOW_DRIVER(cuMemsetD2D32Async(b + 49152, 128, 0x44332211, 9, 9, CU_STREAM_PER_THREAD));
  SHOW_DRIVER(cuMemsetD16Async(b + 57344, 0xabcd, 9, CU_STREAM_LEGACY));
  SHOW_DRIVER(cuCtxSynchronize());
  told("sets");

  printf("-- arrays\n");
  CUDA_ARRAY_DESCRIPTOR line = {4096, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4};
  CUDA_ARRAY_DESCRIPTOR plane = {64, 32, CU_AD_FORMAT_UNSIGNED_INT16, 2};
  CUarray first, second, flat;
  DRIVER(cuArrayCreate(&first, &line));
  DRIVER(cuArrayCreate(&second, &line));
  DRIVER(cuArrayCreate(&flat, &plane));
  SHOW_DRIVER(cuMemcpyDtoA(first, 0, a, 16384));
  SHOW_DRIVER(cuMemcpyDtoA(first, 400, a + 1000, 2000));
  SHOW_DRIVER(cuMemcpyDtoA(first, 16380, a, 8));
  SHOW_DRIVER(cuMemcpyAtoA(second, 0, first, 0, 16384));
  SHOW_DRIVER(cuMemcpyAtoA(second, 800, first, 400, 1200));
  SHOW_DRIVER(cuMemcpyAtoA(second, 800, first, 16000, 1200));
  SHOW_DRIVER(cuMemcpyAtoD(b + 1024, second, 0, 16384));
  SHOW_DRIVER(cuMemcpyAtoD(b + 20000, second, 404, 8));
  SHOW_DRIVER(cuMemcpyAtoD(b, second, 0, 16385));
  SHOW_DRIVER(cuMemcpyAtoD(b, nullptr, 0, 16));
  told("through arrays");

  printf("-- planes\n");
  CUDA_MEMCPY2D two = {};
  two.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  two.srcDevice = a;
  two.srcPitch = 512;
  two.srcXInBytes = 16;
  two.srcY = 3;
  two.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  two.dstArray = flat;
  two.dstXInBytes = 8;
  two.dstY = 2;
  two.WidthInBytes = 200;
  two.Height = 25;
  SHOW_DRIVER(cuMemcpy2D(&two));
  two.Height = 31;
  SHOW_DRIVER(cuMemcpy2D(&two));
  two.Height = 25;
  std::swap(two.srcMemoryType, two.dstMemoryType);
  two.srcArray = flat;
  two.dstDevice = b;
  two.dstPitch = 300;
  SHOW_DRIVER(cuMemcpy2DUnaligned(&two));
  two.dstPitch = 100;
  SHOW_DRIVER(cuMemcpy2D(&two));
  two.dstMemoryType = static_cast<CUmemorytype>(9);
  SHOW_DRIVER(cuMemcpy2D(&two));
  told("planes");

  printf("-- boxes between contexts\n");
  CUDA_MEMCPY3D_PEER box = {};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcContext = box.dstContext = context;
  box.srcDevice = a;
  box.srcPitch = 128;
  box.srcHeight = 16;
  box.dstDevice = b;
  box.dstPitch = 160;
  box.dstHeight = 20;
  box.WidthInBytes = 100;
  box.Height = 10;
  box.Depth = 8;
  SHOW_DRIVER(cuMemcpy3DPeer(&box));
  box.srcXInBytes = 8;
  box.dstZ = 1;
  SHOW_DRIVER(cuMemcpy3DPeerAsync(&box, nullptr));
  box.dstContext = nullptr;
  SHOW_DRIVER(cuMemcpy3DPeer(&box));
  box.dstContext = context;
  box.Depth = 1000;
  SHOW_DRIVER(cuMemcpy3DPeer(&box));
  SHOW_DRIVER(cuCtxSynchronize());
  told("boxes");

  printf("-- attributes that are set\n");
  int ordered = 0;
  SHOW_DRIVER(cuPointerSetAttribute(&ordered, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
  ordered = 1;
  SHOW_DRIVER(cuPointerSetAttribute(&ordered, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
  ordered = -1;
  SHOW_DRIVER(cuPointerGetAttribute(&ordered, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
  printf("ordered: %d\n", ordered);
  SHOW_DRIVER(cuPointerSetAttribute(&ordered, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
  SHOW_DRIVER(cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
  SHOW_DRIVER(cuPointerSetAttribute(&ordered, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 4096));

  for (CUarray array : {first, second, flat}) DRIVER(cuArrayDestroy(array));
  DRIVER(cuMemFree(a));
  DRIVER(cuMemFree(b));
  return 0;
}
