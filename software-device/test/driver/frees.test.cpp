// Memory that goes away while kernels read it: what waits, waits before anything is closed to them,
// and what is freed in the order of a stream stays until the stream gets there.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "images.h"

namespace {

constexpr size_t kGranule = 2 << 20;

const char kRead[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 1 .b8 variable[143];
// flags: 0: it runs; 1: it is to end; 2: it has ended. Reads on for a while when it is told to end.
.visible .entry read_until(.param .u64 data, .param .u64 flags)
{
  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [data]; ld.param.u64 %d1, [flags];
  mov.u32 %r0, 1; mov.u32 %r3, 0;
  st.volatile.global.u32 [%d1], %r0;
LOOP:
  ld.volatile.global.u8 %r1, [%d0];
  ld.volatile.global.u32 %r2, [%d1+4]; setp.eq.u32 %p, %r2, 0;
  @%p bra LOOP;
AGAIN:
  ld.volatile.global.u8 %r1, [%d0];
  add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 1000;
  @%p bra AGAIN;
  st.volatile.global.u32 [%d1+8], %r0;
  ret;
}
)";

// A kernel that reads until some time after somebody has begun to wait for it.
class Running {
 public:
  Running() {
    void *host;
    OK(cuMemHostAlloc(&host, 16, 0));
    flags_ = static_cast<std::atomic<uint32_t> *>(host);
    for (int i = 0; i < 4; i++) flags_[i] = 0;
    OK(cuModuleLoadData(&module, kRead));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  // Reads the byte at `at`; or what `image` gives, by the kernel `until` of images.h.
  void read(CUdeviceptr at) { launch(kernel(module, "read_until"), at, 0); }
  void fetch(CUmodule images, CUtexObject image) { launch(kernel(images, "until"), image, 4); }
  void end_soon() {
    ender_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      flags_[1] = 1;
    });
  }
  bool ended() const { return flags_[2] == 1; }
  void finish() {
    if (ender_.joinable()) ender_.join();
    OK(cuStreamSynchronize(stream));
    OK(cuCtxSynchronize());
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemFreeHost(flags_));
    OK(cuModuleUnload(module));
  }
  CUmodule module;
  CUstream stream;

 private:
  void launch(CUfunction function, uint64_t what, size_t flag) {
    uint64_t at = reinterpret_cast<uint64_t>(flags_) + flag;
    void *arguments[] = {&what, &at};
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
    if (flag == 0)
      while (flags_[0] == 0) std::this_thread::yield();
  }
  std::atomic<uint32_t> *flags_;
  std::thread ender_;
};

// What waits: the kernel has ended when `let_go` returns.
template <class LetGo>
void waits(CUdeviceptr at, LetGo let_go) {
  Running running;
  running.read(at);
  running.end_soon();
  let_go();
  assert_true(running.ended());
  running.finish();
}

void allocations(void **) {
  for (size_t size : {size_t{143}, size_t{4096}, (size_t{1} << 20) + 143, kGranule + 4}) {
    CUdeviceptr at;
    OK(cuMemAlloc_v2(&at, size));
    waits(at + size - 1, [&] { OK(cuMemFree_v2(at)); });
    OK(cuMemAllocManaged(&at, size, CU_MEM_ATTACH_GLOBAL));
    waits(at + size - 1, [&] { OK(cuMemFree_v2(at)); });
    OK(cuMemAllocAsync(&at, size, nullptr));
    waits(at + size - 1, [&] { OK(cuMemFree_v2(at)); });
  }
}

void host_memory(void **) {
  for (size_t size : {size_t{143}, kGranule + 143}) {
    void *host;
    OK(cuMemHostAlloc(&host, size, 0));
    auto at = reinterpret_cast<CUdeviceptr>(host);
    waits(at + size - 1, [&] { OK(cuMemFreeHost(host)); });
    host = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(host, MAP_FAILED);
    OK(cuMemHostRegister_v2(host, size, 0));
    CUdeviceptr registered;
    OK(cuMemHostGetDevicePointer_v2(&registered, host, 0));
    waits(registered + size - 1, [&] { OK(cuMemHostUnregister(host)); });
    munmap(host, size);
  }
}

// What has been freed in a stream is used by what came before in it, whatever happens to the pool.
void in_order(void **) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  for (size_t size : {size_t{143}, kGranule + 143}) {
    CUmemoryPool pool;
    CUdeviceptr at, plain, other;
    OK(cuMemPoolCreate(&pool, &properties));
    Running running;
    OK(cuMemAllocFromPoolAsync(&at, size, pool, running.stream));
    OK(cuMemAlloc_v2(&plain, 143));
    running.read(at + size - 1);
    OK(cuMemFreeAsync(at, running.stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(at, running.stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(at, 0, 1, running.stream));
    OK(cuMemFreeAsync(plain, running.stream));
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemPoolDestroy(pool));
    OK(cuMemAlloc_v2(&other, size));
    assert_true(other != at);
    assert_false(running.ended());
    running.end_soon();
    running.finish();
    OK(cuMemFree_v2(other));
  }
}

void modules(void **) {
  CUmodule module;
  CUdeviceptr variable;
  size_t size;
  OK(cuModuleLoadData(&module, kRead));
  OK(cuModuleGetGlobal_v2(&variable, &size, module, "variable"));
  assert_int_equal(size, 143);
  waits(variable + size - 1, [&] { OK(cuModuleUnload(module)); });
  CUlibrary library;
  OK(cuLibraryLoadData(&library, kRead, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cuLibraryGetGlobal(&variable, &size, library, "variable"));
  waits(variable + size - 1, [&] { OK(cuLibraryUnload(library)); });
}

void mappings(void **) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at;
  OK(cuMemAddressReserve(&at, kGranule, 0, 0, 0));
  OK(cuMemCreate(&handle, kGranule, &properties, 0));
  OK(cuMemMap(at, kGranule, 0, handle, 0));
  OK(cuMemSetAccess(at, kGranule, &access, 1));
  OK(cuMemRelease(handle));  // the mapping keeps it
  waits(at + 142, [&] { OK(cuMemUnmap(at, kGranule)); });
  OK(cuMemAddressFree(at, kGranule));
}

void arrays(void **) {
  CUmodule images = load();
  for (unsigned levels : {0u, 2u}) {
    CUDA_ARRAY3D_DESCRIPTOR of = {33, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
    CUDA_RESOURCE_DESC resource = {};
    CUmipmappedArray mipmap = nullptr;
    CUarray array;
    if (levels) {
      OK(cuMipmappedArrayCreate(&mipmap, &of, levels));
      OK(cuMipmappedArrayGetLevel(&array, mipmap, 1));
    } else {
      OK(cuArray3DCreate_v2(&array, &of));
    }
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC settings = {};
    settings.flags = kReadAsInteger;
    CUtexObject texture;
    OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
    Running running;
    running.fetch(images, texture);
    running.end_soon();
    OK(levels ? cuMipmappedArrayDestroy(mipmap) : cuArrayDestroy(array));
    EXPECT(CUDA_SUCCESS, cuStreamQuery(running.stream));  // it has ended
    running.finish();
    OK(cuTexObjectDestroy(texture));
  }
  OK(cuModuleUnload(images));
}

// A graph that allocates 143 bytes and reads them; with a node that frees them, or not.
CUgraph reading_graph(const Running &running, CUdeviceptr flags, bool frees, CUdeviceptr *at) {
  CUgraph graph;
  CUgraphNode nodes[3];
  OK(cuGraphCreate(&graph, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS allocation = {};
  allocation.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  allocation.bytesize = 143;
  OK(cuGraphAddMemAllocNode(&nodes[0], graph, nullptr, 0, &allocation));
  *at = allocation.dptr;
  CUdeviceptr last = *at + 142;
  void *arguments[] = {&last, &flags};
  CUDA_KERNEL_NODE_PARAMS launch = {};
  launch.func = kernel(running.module, "read_until");
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  launch.kernelParams = arguments;
  OK(cuGraphAddKernelNode_v2(&nodes[1], graph, nodes, 1, &launch));
  if (frees) OK(cuGraphAddMemFreeNode(&nodes[2], graph, nodes + 1, 1, *at));
  return graph;
}

void memory_of_graphs(void **) {
  enum class Way { kEnds, kFrees, kFreesInOrder };
  for (Way way : {Way::kEnds, Way::kFrees, Way::kFreesInOrder}) {
    Running running;
    void *host;
    OK(cuMemHostAlloc(&host, 16, 0));
    auto *flags = static_cast<std::atomic<uint32_t> *>(host);
    for (int i = 0; i < 4; i++) flags[i] = 0;
    CUdeviceptr at;
    CUgraph graph =
        reading_graph(running, reinterpret_cast<CUdeviceptr>(host), way == Way::kEnds, &at);
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, running.stream));
    while (flags[0] == 0) std::this_thread::yield();
    std::thread ender([flags] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      flags[1] = 1;
    });
    if (way == Way::kFreesInOrder) OK(cuMemFreeAsync(at, running.stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    if (way == Way::kFrees) {
      OK(cuMemFree_v2(at));
      assert_int_equal(flags[2], 1);
    }
    OK(cuDeviceGraphMemTrim(0));
    ender.join();
    running.finish();
    assert_int_equal(flags[2], 1);
    OK(cuMemFreeHost(host));
  }
}

// Memory of device 1 that kernels of device 0 read: as long as they run they may.
void peers(void **state) {
  CUcontext here = static_cast<CUcontext>(*state), there;
  CUdeviceptr at;
  OK(cuCtxCreate_v2(&there, 0, 1));
  OK(cuMemAlloc_v2(&at, 143));
  OK(cuCtxPushCurrent_v2(here));
  OK(cuCtxEnablePeerAccess(there, 0));
  waits(at + 142, [&] { OK(cuCtxDisablePeerAccess(there)); });
  OK(cuCtxPopCurrent_v2(nullptr));
  OK(cuCtxDestroy_v2(there));
  OK(cuCtxSetCurrent(here));
}

// What is wrong is refused while kernels run: one that waits for the program would wait for ever.
void refusals(void **state) {
  CUcontext here = static_cast<CUcontext>(*state), there;
  CUdeviceptr at, reserved;
  OK(cuMemAlloc_v2(&at, 143));
  OK(cuMemAddressReserve(&reserved, kGranule, 0, 0, 0));
  OK(cuCtxCreate_v2(&there, 0, 1));
  OK(cuCtxSetCurrent(here));
  Running running;
  running.read(at + 142);
  assert_int_equal(cuCtxDisablePeerAccess(there), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  assert_int_equal(cuMemAddressFree(reserved, 2 * kGranule), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAddressFree(at, kGranule), CUDA_ERROR_INVALID_VALUE);
  assert_false(running.ended());
  running.end_soon();
  running.finish();
  OK(cuMemAddressFree(reserved, kGranule));
  OK(cuMemFree_v2(at));
  OK(cuCtxDestroy_v2(there));
  OK(cuCtxSetCurrent(here));
}

void pools_of_peers(void **state) {
  CUcontext here = static_cast<CUcontext>(*state), there;
  OK(cuCtxCreate_v2(&there, 0, 1));
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemoryPool pool;
  CUdeviceptr at;
  CUevent read;
  OK(cuMemPoolCreate(&pool, &properties));
  OK(cuMemPoolSetAccess(pool, &access, 1));
  OK(cuMemAllocFromPoolAsync(&at, 143, pool, nullptr));
  OK(cuStreamSynchronize(nullptr));
  OK(cuCtxPushCurrent_v2(here));
  OK(cuEventCreate(&read, CU_EVENT_DISABLE_TIMING));
  Running running;
  running.read(at + 142);
  OK(cuEventRecord(read, running.stream));
  OK(cuCtxPopCurrent_v2(nullptr));
  OK(cuStreamWaitEvent(nullptr, read, 0));
  OK(cuMemFreeAsync(at, nullptr));
  OK(cuMemPoolDestroy(pool));
  running.end_soon();
  OK(cuCtxSynchronize());
  OK(cuCtxDestroy_v2(there));
  OK(cuCtxSetCurrent(here));
  running.finish();
  OK(cuEventDestroy_v2(read));
}

// A stream that has been destroyed still has work, for which frees wait.
void streams_without_a_handle(void **) {
  CUdeviceptr at;
  OK(cuMemAlloc_v2(&at, 143));
  Running running;
  running.read(at + 142);
  OK(cuStreamDestroy_v2(running.stream));
  running.end_soon();
  OK(cuMemFree_v2(at));
  assert_true(running.ended());
  OK(cuStreamCreate(&running.stream, CU_STREAM_NON_BLOCKING));
  running.finish();
}

}  // namespace

int main() {
  setenv("SOFTWARE_DEVICE_GPUS", "2", 1);
  const CMUnitTest tests[] = {
      TEST(allocations), TEST(host_memory), TEST(in_order),         TEST(modules),
      TEST(mappings),    TEST(arrays),      TEST(memory_of_graphs), TEST(streams_without_a_handle),
      TEST(peers),       TEST(refusals),    TEST(pools_of_peers),
  };
  return cmocka_run_group_tests_name("frees", tests, nullptr, nullptr);
}
