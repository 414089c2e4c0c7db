// Grids that launch grids: when all of it is done, what it may cost, and how it fails.
#include <string>

#include "entry/work.h"
#include "support.h"

namespace {

#define HEADER ".version 7.0\n.target sm_70\n.address_size 64\n"

constexpr char kRuntime[] = HEADER R"(
.extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f,
  .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 b, .param .b64 s);
.extern .func (.param .b32 r) __cudaCDP2GetLastError();
.extern .func (.param .b32 r) __cudaCDP2StreamCreateWithFlags(.param .b64 p, .param .b32 f);

.visible .entry count(.param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %d<2>;
  ld.param.u64 %d1, [out];
  atom.global.add.u32 %r1, [%d1], 1;
  ret;
}
.visible .entry work(.param .u64 out) {
  .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %d<2>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, 0;
AGAIN:
  add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000000; @%p1 bra AGAIN;
  atom.global.add.u32 %r2, [%d1], 1;
  ret;
}
.visible .entry faults(.param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %d<2>;
  mov.u64 %d1, 64; mov.u32 %r1, 1;
  st.global.u32 [%d1], %r1;
  ret;
}
.visible .entry unknown(.param .u64 out) {
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; ret;
}

// Launches f(out) in a stream; an error is kept in out[2], a success counted in out[1].
.func start(.param .b64 f, .param .b64 out, .param .b64 stream) {
  .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %d<6>;
  ld.param.u64 %d1, [f]; ld.param.u64 %d2, [out]; ld.param.u64 %d3, [stream];
  { .param .b64 a0; .param .align 4 .b8 a1[12]; .param .align 4 .b8 a2[12]; .param .b32 a3;
    .param .b64 r;
    st.param.b64 [a0], %d1;
    st.param.b32 [a1], 1; st.param.b32 [a1+4], 1; st.param.b32 [a1+8], 1;
    st.param.b32 [a2], 1; st.param.b32 [a2+4], 1; st.param.b32 [a2+8], 1;
    st.param.b32 [a3], 0;
    call.uni (r), __cudaCDP2GetParameterBufferV2, (a0, a1, a2, a3);
    ld.param.b64 %d4, [r]; }
  setp.eq.u64 %p1, %d4, 0;
  @%p1 bra LOOK;
  st.u64 [%d4], %d2;
  { .param .b64 a0; .param .b64 a1; .param .b32 r;
    st.param.b64 [a0], %d4; st.param.b64 [a1], %d3;
    call.uni (r), __cudaCDP2LaunchDeviceV2, (a0, a1); }
LOOK:
  { .param .b32 r; call.uni (r), __cudaCDP2GetLastError, (); ld.param.b32 %r1, [r]; }
  setp.eq.u32 %p2, %r1, 0;
  @!%p2 st.global.u32 [%d2+8], %r1;
  @%p2 atom.global.add.u32 %r2, [%d2+4], 1;
  ret;
}

// Launches one of the above so many times.
.visible .entry parent(.param .u64 out, .param .u32 times, .param .u32 which, .param .u64 stream) {
  .reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %d<6>;
  ld.param.u64 %d1, [out]; ld.param.u32 %r1, [times]; ld.param.u32 %r2, [which];
  ld.param.u64 %d2, [stream];
  mov.u64 %d3, count;
  setp.eq.u32 %p1, %r2, 1; @%p1 mov.u64 %d3, work;
  setp.eq.u32 %p1, %r2, 2; @%p1 mov.u64 %d3, faults;
  setp.eq.u32 %p1, %r2, 3; @%p1 mov.u64 %d3, unknown;
AGAIN:
  { .param .b64 a0; .param .b64 a1; .param .b64 a2;
    st.param.b64 [a0], %d3; st.param.b64 [a1], %d1; st.param.b64 [a2], %d2;
    call.uni start, (a0, a1, a2); }
  sub.u32 %r1, %r1, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra AGAIN;
  ret;
}
// A result that is to go where nothing is.
.visible .entry lost() {
  .reg .b64 %d<2>;
  { .param .b64 a0; .param .b32 a1; .param .b32 r;
    st.param.b64 [a0], 64; st.param.b32 [a1], 1;
    call.uni (r), __cudaCDP2StreamCreateWithFlags, (a0, a1); }
  ret;
}
)";

enum Which : uint32_t { kCount, kWork, kFaults, kUnknown };
enum : uint64_t { kDefault = 0, kTail = 3, kFireAndForget = 4 };

struct Out {
  uint32_t ran, launched, error;
};

struct Nest {
  explicit Nest(const char *text = kRuntime) {
    OK(cuModuleLoadData(&module, text));
    OK(cuMemAlloc_v2(&out, sizeof(Out)));
    OK(cuMemsetD8_v2(out, 0, sizeof(Out)));
  }
  void launch(uint32_t times, Which which, uint64_t in, CUstream stream = nullptr) {
    void *parameters[] = {&out, &times, &which, &in};
    OK(cuLaunchKernel(kernel(module, "parent"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }
  Out take() {
    Out result;
    OK(cuMemcpyDtoH_v2(&result, out, sizeof result));
    OK(cuMemsetD8_v2(out, 0, sizeof(Out)));
    return result;
  }
  CUmodule module;
  CUdeviceptr out;
};

void a_grid_is_done_when_its_children_are(void **) {
  Nest nest;
  CUstream stream, other;
  CUevent event;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (uint64_t in : {kDefault, kTail, kFireAndForget}) {
    nest.launch(6, kWork, in, stream);
    OK(cuEventRecord(event, stream));
    uint32_t *seen;
    OK(cuMemAllocHost_v2(reinterpret_cast<void **>(&seen), 4));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuMemcpyDtoHAsync_v2(seen, nest.out, 4, other));
    OK(cuStreamSynchronize(other));
    assert_int_equal(*seen, 6);
    OK(cuMemFreeHost(seen));
    nest.take();
  }
}

// Launches that are over, or were never made, stay in nobody's way.
void nothing_stays_pending(void **) {
  Nest nest;
  OK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 50));
  for (int round = 0; round < 20; round++) {
    nest.launch(70, kCount, kTail);
    const Out out = nest.take();
    assert_int_equal(out.launched, 50);
    assert_int_equal(out.ran, 50);
    assert_int_equal(out.error, 69);  // cudaErrorLaunchPendingCountExceeded
  }
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY,
         cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, size_t{1} << 40));
}

void a_child_that_faults_poisons_the_context(void **state) {
  Nest nest;
  nest.launch(3, kFaults, kDefault);
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree_v2(nest.out));
  // Another context knows nothing of it.
  CUcontext fresh;
  OK(cuCtxCreate_v2(&fresh, 0, 0));
  {
    Nest again;
    again.launch(60, kCount, kTail);
    const Out out = again.take();
    assert_int_equal(out.ran, 60);
  }
  OK(cuCtxDestroy_v2(fresh));
  OK(cuCtxSetCurrent(static_cast<CUcontext>(*state)));
}

void tails_behind_a_fault_are_dropped(void **) {
  Nest nest;
  nest.launch(500, kFaults, kTail);
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

void a_child_that_cannot_run_is_an_error_of_the_thread(void **) {
  Nest nest;
  nest.launch(3, kUnknown, kDefault);
  const Out out = nest.take();
  assert_int_equal(out.launched, 0);
  assert_int_equal(out.error, 801);  // cudaErrorNotSupported
}

void a_result_without_a_place_is_a_fault(void **) {
  Nest nest;
  OK(cuLaunchKernel(kernel(nest.module, "lost"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

void unloading_waits_for_children(void **) {
  Nest nest;
  nest.launch(4, kWork, kFireAndForget);
  OK(cuModuleUnload(nest.module));
  uint32_t ran;
  OK(cuMemcpyDtoH_v2(&ran, nest.out, 4));
  assert_int_equal(ran, 4);
}

void its_memory_goes_with_the_module(void **) {
  size_t before, loaded, after, total;
  OK(cuMemGetInfo_v2(&before, &total));
  {
    Nest nest;
    OK(cuMemGetInfo_v2(&loaded, &total));
    assert_true(loaded < before);
    nest.launch(100, kCount, kDefault);
    OK(cuCtxSynchronize());
    OK(cuMemFree_v2(nest.out));
    OK(cuModuleUnload(nest.module));
  }
  OK(cuMemGetInfo_v2(&after, &total));
  assert_int_equal(after, before);
}

void children_are_counted_as_work(void **state) {
  uint64_t alone = 0, with = 0;
  unsigned workers;
  Nest nest;
  auto *context = static_cast<CUcontext>(*state);
  nest.launch(1, kCount, kDefault);
  OK(cuCtxSynchronize());
  OK(softwareDeviceWorkNs(context, &alone, &workers));
  nest.launch(4, kWork, kDefault);
  OK(cuCtxSynchronize());
  OK(softwareDeviceWorkNs(context, &with, &workers));
  // Four million turns of a loop.
  assert_true(with - alone > 1'000'000);
}

void graphs_launch_such_grids_again_and_again(void **) {
  Nest nest;
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  nest.launch(5, kCount, kTail, stream);
  nest.launch(5, kCount, kDefault, stream);
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < 10; i++) OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  assert_int_equal(nest.take().ran, 100);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

// What is declared and there in no form is refused, by the kernel that calls it.
void other_functions_are_refused(void **) {
  constexpr char kOthers[] = HEADER R"(
.extern .func (.param .b32 r) __cudaDeviceSynchronizeDeprecationAvoidance();
.extern .func (.param .b32 r) __cudaCDP2GetLastError(.param .b64 too_many);
.visible .entry waits() {
  { .param .b32 r; call.uni (r), __cudaDeviceSynchronizeDeprecationAvoidance, (); } ret; }
.visible .entry asks() {
  { .param .b64 a; .param .b32 r; call.uni (r), __cudaCDP2GetLastError, (a); } ret; }
.visible .entry other() { ret; }
)";
  CUmodule module;
  OK(cuModuleLoadData(&module, kOthers));
  auto launch = [&](const char *name) {
    return cuLaunchKernel(kernel(module, name), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  };
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, launch("waits"));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, launch("asks"));
  OK(launch("other"));
}

// The names that they have in the runtime's interface, as other compilers than nvcc leave them.
void plain_names_mean_the_same(void **) {
  std::string text = kRuntime;
  const std::string prefix = "__cudaCDP2";
  for (size_t at; (at = text.find(prefix)) != std::string::npos;)
    text.replace(at, prefix.size(), "cuda");
  Nest nest(text.c_str());
  nest.launch(7, kCount, kDefault);
  assert_int_equal(nest.take().ran, 7);
}

// No library is needed for what the device has itself.
void they_link_without_a_library(void **) {
  CUlinkState link;
  void *cubin;
  OK(cuLinkCreate_v2(0, nullptr, nullptr, &link));
  OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<char *>(kRuntime), sizeof kRuntime, "one",
                      0, nullptr, nullptr));
  OK(cuLinkComplete(link, &cubin, nullptr));
  CUmodule module;
  OK(cuModuleLoadData(&module, cubin));
  OK(cuLinkDestroy(link));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(a_grid_is_done_when_its_children_are),
      TEST(nothing_stays_pending),
      TEST(a_child_that_faults_poisons_the_context),
      TEST(tails_behind_a_fault_are_dropped),
      TEST(a_child_that_cannot_run_is_an_error_of_the_thread),
      TEST(a_result_without_a_place_is_a_fault),
      TEST(unloading_waits_for_children),
      TEST(its_memory_goes_with_the_module),
      TEST(children_are_counted_as_work),
      TEST(graphs_launch_such_grids_again_and_again),
      TEST(other_functions_are_refused),
      TEST(plain_names_mean_the_same),
      TEST(they_link_without_a_library),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
