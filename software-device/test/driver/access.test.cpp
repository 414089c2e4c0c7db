// What kernels may touch: the bytes of allocations and no others, whatever gave them out. Run a
// second time without SOFTWARE_DEVICE_CHECKS=exact, where only whole pages are told apart,
// and units of shared memory.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "support.h"

namespace {

const char kTouch[] = R"(
.version 7.0
.target sm_70
.address_size 64
.const .align 4 .u32 fixed[4] = {1, 2, 3, 4};
.global .align 4 .u32 other[4];
.visible .entry read1(.param .u64 at) { .reg .b32 %r<2>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [at]; ld.global.u8 %r0, [%d0]; ret; }
.visible .entry read4(.param .u64 at) { .reg .b32 %r<2>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [at]; ld.global.u32 %r0, [%d0]; ret; }
.visible .entry write4(.param .u64 at) { .reg .b32 %r<2>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [at]; mov.u32 %r0, 7; st.global.u32 [%d0], %r0; ret; }
.extern .shared .align 4 .b8 box[];
.visible .entry shared4(.param .u64 at) { .reg .b32 %r<3>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [at]; cvt.u32.u64 %r0, %d0; mov.u32 %r1, box; add.s32 %r0, %r0, %r1;
  ld.shared.u32 %r2, [%r0]; ret; }
.visible .entry units(.param .u64 at) { .reg .b32 %r<2>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [at]; mov.u32 %r0, %total_smem_size; st.global.u32 [%d0], %r0; ret; }
)";

bool exact() {
  const char *checks = getenv("SOFTWARE_DEVICE_CHECKS");
  return checks && std::string(checks) == "exact";
}

// One thread's accesses, in a context of their own, so that a fault poisons no other. It is made
// before what it probes: its module has variables, which would lie in the next free place.
class Probe {
 public:
  Probe() {
    OK(cuCtxCreate_v2(&context_, 0, 0));
    OK(cuModuleLoadData(&module, kTouch));
    OK(cuCtxPopCurrent_v2(nullptr));
  }
  ~Probe() { cuCtxDestroy_v2(context_); }
  CUresult run(const char *name, CUdeviceptr at, CUstream stream = nullptr, unsigned shared = 0) {
    OK(cuCtxPushCurrent_v2(context_));
    void *parameters[] = {&at};
    OK(cuLaunchKernel(kernel(module, name), 1, 1, 1, 1, 1, 1, shared, stream, parameters, nullptr));
    CUresult result = cuCtxSynchronize();
    EXPECT(result, cuCtxSynchronize());  // it stays
    OK(cuCtxPopCurrent_v2(nullptr));
    return result;
  }
  void expect_fault(const char *name, CUdeviceptr at,
                    CUresult wanted = CUDA_ERROR_ILLEGAL_ADDRESS) {
    EXPECT(wanted, run(name, at));
  }
  CUcontext context() const { return context_; }
  CUmodule module;

 private:
  CUcontext context_;
};

// What is written to stderr while `work` runs.
template <class Work>
std::string said(Work work) {
  FILE *file = tmpfile();
  fflush(stderr);
  int before = dup(2);
  dup2(fileno(file), 2);
  work();
  fflush(stderr);
  dup2(before, 2);
  close(before);
  char text[4096];
  rewind(file);
  size_t length = fread(text, 1, sizeof text, file);
  fclose(file);
  return {text, length};
}

void assert_has(const std::string &text, const std::string &part) {
  if (text.find(part) == std::string::npos) fail_msg("no '%s' in: %s", part.c_str(), text.c_str());
}

void ends_of_allocations(void **) {
  Probe good;
  for (size_t size : {1, 4, 7, 100, 252, 256, 400, 1000, 4096, 1 << 20, (1 << 20) + 4, 5 << 20}) {
    Probe byte, word;
    CUdeviceptr at;
    OK(cuMemAlloc_v2(&at, size));
    OK(good.run("read1", at));
    OK(good.run("read1", at + size - 1));
    if (size % 4 == 0) OK(good.run("write4", at + size - 4));
    if (exact()) {
      byte.expect_fault("read1", at + size);
      word.expect_fault("read4", (at + size) & ~CUdeviceptr{3});
    } else if ((at + size) % (2 << 20)) {
      OK(good.run("read1", at + size));  // as on a GPU: the page is there
      OK(good.run("read4", (at + size) & ~CUdeviceptr{3}));
    }
    OK(cuMemFree_v2(at));
  }
}

void other_kinds_of_memory(void **) {
  Probe good, far, close, in_pinned, in_managed;
  size_t pitch;
  CUdeviceptr at;
  OK(cuMemAllocPitch_v2(&at, &pitch, 100, 3, 4));
  OK(good.run("write4", at + 3 * pitch - 4));
  far.expect_fault("read1", at + (size_t{1} << 35));
  if (exact()) close.expect_fault("read1", at + 3 * pitch);
  void *host;
  OK(cuMemHostAlloc(&host, 100, 0));
  auto pinned = reinterpret_cast<CUdeviceptr>(host);
  OK(good.run("write4", pinned + 96));
  if (exact()) in_pinned.expect_fault("write4", pinned + 100);
  CUdeviceptr managed;
  OK(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
  OK(good.run("write4", managed + 96));
  if (exact()) in_managed.expect_fault("write4", managed + 100);
  OK(cuMemFreeHost(host));
  OK(cuMemFree_v2(managed));
  OK(cuMemFree_v2(at));
}

// Memory of the program begins where it likes; two pieces may share a granule of the flags, or a
// page, which a GPU sees as a whole.
void registered_memory(void **) {
  Probe good;
  auto *block = static_cast<uint8_t *>(aligned_alloc(4096, 4096));
  OK(cuMemHostRegister_v2(block + 40, 24, CU_MEMHOSTREGISTER_DEVICEMAP));
  OK(cuMemHostRegister_v2(block + 68, 1000, CU_MEMHOSTREGISTER_DEVICEMAP));
  auto at = reinterpret_cast<CUdeviceptr>(block);
  for (int i : {40, 60, 68, 72, 300, 1064}) OK(good.run("read4", at + static_cast<unsigned>(i)));
  for (unsigned i : {36u, 64u, 1068u, 4092u}) {
    if (exact())
      Probe().expect_fault("read4", at + i);
    else
      OK(good.run("read4", at + i));
  }
  Probe().expect_fault("read4", at + 4096);
  OK(cuMemHostUnregister(block + 40));
  if (exact()) Probe().expect_fault("read4", at + 40);
  OK(good.run("read4", at + 68));
  OK(cuMemHostUnregister(block + 68));
  Probe().expect_fault("read4", at + 68);
  free(block);
}

// A neighbour may not hide that a kernel goes too far, nor may what was there before.
void neighbours(void **) {
  for (size_t size : {size_t{100}, size_t{512}, size_t{4096}, size_t{1} << 20}) {
    CUdeviceptr before, at, behind;
    OK(cuMemAlloc_v2(&before, size + 512));
    OK(cuMemFree_v2(before));
    OK(cuMemAlloc_v2(&at, size));
    OK(cuMemAlloc_v2(&behind, size));
    Probe good, bad;
    OK(good.run("write4", at + size - 4));
    OK(good.run("write4", behind));
    if (exact()) {
      CUresult result = CUDA_SUCCESS;
      std::string text = said([&] { result = bad.run("write4", at + size); });
      EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, result);
      char nearest[100];
      snprintf(nearest, sizeof nearest, "device memory of %zu bytes at 0x%llx", size, at);
      assert_has(text, nearest);
    }
    OK(cuMemFree_v2(at));
    OK(cuMemFree_v2(behind));
  }
}

// A program that does not look at what it is told finds out here, at the latest.
void refused_before(void **) {
  CUdeviceptr at;
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&at, size_t{1} << 45));
  Probe bad;
  std::string text =
      said([&] { EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, bad.run("write4", size_t{1} << 40)); });
  assert_has(text, "35184372088832 bytes were asked for before, and refused");
}

void freed_memory(void **) {
  Probe good, bad, large;
  CUdeviceptr before, at, behind;
  OK(cuMemAlloc_v2(&before, 512));
  OK(cuMemAlloc_v2(&at, 512));
  OK(cuMemAlloc_v2(&behind, 512));
  OK(good.run("read4", at));
  OK(cuMemFree_v2(at));
  OK(good.run("read4", before));
  OK(good.run("read4", behind));
  if (exact()) {
    CUresult result = CUDA_SUCCESS;
    std::string text = said([&] { result = bad.run("write4", at + 8); });
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, result);
    assert_has(text, "kernel write4, block (0,0,0), thread (0,0,0), PTX line");
    assert_has(text, "write of 4 bytes at global address");
    assert_has(text, "512 bytes");
    assert_has(text, "that were freed");
  }
  CUdeviceptr again;
  OK(cuMemAlloc_v2(&again, 512));
  OK(good.run("write4", again));
  for (CUdeviceptr one : {before, behind, again}) OK(cuMemFree_v2(one));
  OK(cuMemAlloc_v2(&at, 64 << 20));
  OK(good.run("write4", at + (32 << 20)));
  OK(cuMemFree_v2(at));
  large.expect_fault("write4", at + (32 << 20));
}

void freed_in_a_stream(void **) {
  Probe probe;
  OK(cuCtxPushCurrent_v2(probe.context()));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr at, keep;
  OK(cuMemAllocAsync(&keep, 512, stream));
  OK(cuMemAllocAsync(&at, 512, stream));
  OK(probe.run("write4", at + 508, stream));
  OK(cuMemFreeAsync(at, stream));
  if (exact()) {
    void *parameters[] = {&at};
    OK(cuLaunchKernel(kernel(probe.module, "write4"), 1, 1, 1, 1, 1, 1, 0, stream, parameters,
                      nullptr));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
  }
  OK(cuCtxPopCurrent_v2(nullptr));
}

void alignment(void **) {
  CUdeviceptr at;
  OK(cuMemAlloc_v2(&at, 64));
  Probe().expect_fault("read4", at + 2, CUDA_ERROR_MISALIGNED_ADDRESS);
  Probe().expect_fault("write4", at + 1, CUDA_ERROR_MISALIGNED_ADDRESS);
  OK(cuMemFree_v2(at));
}

void constants(void **) {
  CUdeviceptr fixed, other;
  size_t size;
  Probe probe;
  OK(cuModuleGetGlobal_v2(&fixed, &size, probe.module, "fixed"));
  OK(cuModuleGetGlobal_v2(&other, &size, probe.module, "other"));
  OK(probe.run("read4", fixed + 4));
  OK(probe.run("write4", other + 4));
  uint32_t value = 9, back;
  OK(cuMemcpyHtoD_v2(fixed, &value, 4));
  OK(cuMemcpyDtoH_v2(&back, fixed, 4));
  assert_int_equal(back, 9);
  probe.expect_fault("write4", fixed);
}

void addresses_of_nobody(void **) {
  int host = 0;
  for (CUdeviceptr at : {CUdeviceptr{0}, CUdeviceptr{4096}, reinterpret_cast<CUdeviceptr>(&host),
                         ~CUdeviceptr{3}, CUdeviceptr{1} << 47})
    Probe().expect_fault("write4", at);
}

// A GPU hands it out in units, and tells a kernel how much it has by these.
void ends_of_shared_memory(void **) {
  int major;
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  const unsigned unit = major < 8 ? 256 : 128;
  Probe good;
  CUdeviceptr out;
  OK(cuMemAlloc_v2(&out, 4));
  for (unsigned asked : {4u, 8u, 252u, 256u, 260u, 48u << 10}) {
    const unsigned in_units = (asked + unit - 1) / unit * unit, end = exact() ? asked : in_units;
    OK(good.run("shared4", end - 4, nullptr, asked));
    Probe bad;
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, bad.run("shared4", end, nullptr, asked));
    OK(good.run("units", out, nullptr, asked));
    uint32_t told;
    OK(cuMemcpyDtoH_v2(&told, out, 4));
    assert_int_equal(told, in_units);
  }
  OK(cuMemFree_v2(out));
}

}  // namespace

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, use_primary, release_primary)

int main() {
  const CMUnitTest tests[] = {
      TEST(ends_of_allocations),
      TEST(other_kinds_of_memory),
      TEST(registered_memory),
      TEST(neighbours),
      TEST(refused_before),
      TEST(freed_memory),
      TEST(freed_in_a_stream),
      TEST(alignment),
      TEST(constants),
      TEST(addresses_of_nobody),
      TEST(ends_of_shared_memory),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
