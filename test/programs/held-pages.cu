// Functions of the host that read and write memory which host and device share, while another
// thread loads a library, and one more makes, fills, uses and frees memory. A stream is held by the
// function, or by a graph that calls it; kernels before and behind it use the same memory: managed,
// allocated and registered. A driver may let the load wait for the function, and let nobody start a
// copy meanwhile. flags: -lcuda
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "check_driver.h"

constexpr int kRounds = 3;
constexpr int kInts = 700'000;  // more than one message takes
constexpr int kFew = 3000;

// What both sides have.
struct Shared {
  int *managed, *allocated, *registered;  // of kInts, kFew and kFew
  int *device_allocated, *device_registered;
};

__global__ void before(Shared shared, int round) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kInts) shared.managed[i] = i + round;
  if (i < kFew) {
    shared.device_allocated[i] = 2 * i + round;
    shared.device_registered[i] = 3 * i + round;
  }
}

// Counts what is not what the function should have written.
__global__ void behind(Shared shared, int round, int *wrong) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool right = i >= kInts || shared.managed[i] == 10 * (i + round);
  if (i < kFew)
    right = right && shared.device_allocated[i] == 10 * (2 * i + round) &&
            shared.device_registered[i] == 10 * (3 * i + round);
  if (!right) atomicAdd(wrong, 1);
  if (i < kInts) shared.managed[i] = -1;
}

__global__ void add_up(const int *values, const unsigned char *bytes, int *sum) {
  atomicAdd(sum, values[threadIdx.x] + bytes[threadIdx.x]);
}

struct Call {
  Shared shared;
  int round, wrong;
  std::atomic<bool> entered;
};

static void multiply(int *values, int count, int factor, Call *call) {
  for (int i = 0; i < count; i++) {
    if (values[i] != factor * i + call->round) call->wrong++;
    values[i] *= 10;
  }
}

static void CUDART_CB function(void *data) {
  auto *call = static_cast<Call *>(data);
  call->entered = true;
  // Until the load waits.
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  multiply(call->shared.managed, kInts, 1, call);
  multiply(call->shared.allocated, kFew, 2, call);
  multiply(call->shared.registered, kFew, 3, call);
}

static void load() {
  const std::string text =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry sets(.param .u64 at)\n{\n  .reg .u64 %a<2>;\n  ld.param.u64 %a1, [at];\n"
      "  st.global.u32 [%a1], 7;\n  ret;\n}\n";
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  int *word, value = 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  DRIVER(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  DRIVER(cuLibraryGetKernel(&kernel, library, "sets"));
  DRIVER(cuKernelGetFunction(&function, kernel));
  CHECK(cudaMallocAsync(&word, sizeof *word, stream));
  void *arguments[] = {&word};
  DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  CHECK(cudaMemcpyAsync(&value, word, sizeof value, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  if (value != 7) printf("a kernel that was loaded has not run\n");
  CHECK(cudaFreeAsync(word, stream));
  CHECK(cudaStreamDestroy(stream));
  DRIVER(cuLibraryUnload(library));
}

// Uploads, and managed memory that is new.
static void work_beside(const std::atomic<bool> *over) {
  constexpr int kBytes = 200'000, kThreads = 64;
  std::vector<unsigned char> bytes(kBytes, 3);
  unsigned char *device;
  int *sum, seen = 0, wanted = 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&device, kBytes));
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMemsetAsync(sum, 0, sizeof *sum, stream));
  do {
    int *fresh;
    CHECK(cudaMallocManaged(&fresh, kInts * sizeof(int)));
    for (int i = 0; i < kThreads; i++) fresh[i] = i;
    CHECK(cudaMemcpyAsync(device, bytes.data(), kBytes, cudaMemcpyHostToDevice, stream));
    add_up<<<1, kThreads, 0, stream>>>(fresh, device, sum);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(fresh));
    wanted += kThreads * (kThreads - 1) / 2 + kThreads * 3;
    // Each launch takes the pages from the function.
    if (!*over) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (!*over);
  CHECK(cudaMemcpyAsync(&seen, sum, sizeof seen, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  if (seen != wanted) printf("beside: %d, not %d\n", seen, wanted);
  CHECK(cudaFree(sum));
  CHECK(cudaFree(device));
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  Shared shared{};
  std::vector<int> own(kFew);
  CHECK(cudaMallocManaged(&shared.managed, kInts * sizeof(int)));
  CHECK(cudaHostAlloc(&shared.allocated, kFew * sizeof(int), cudaHostAllocMapped));
  shared.registered = own.data();
  CHECK(cudaHostRegister(shared.registered, kFew * sizeof(int), cudaHostRegisterMapped));
  CHECK(cudaHostGetDevicePointer(&shared.device_allocated, shared.allocated, 0));
  CHECK(cudaHostGetDevicePointer(&shared.device_registered, shared.registered, 0));
  int *wrong, seen = 0;
  CHECK(cudaMalloc(&wrong, sizeof *wrong));
  CHECK(cudaMemset(wrong, 0, sizeof *wrong));
  cudaStream_t held;
  CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  const int blocks = (kInts + 255) / 256;
  // What the rounds launch is loaded then.
  before<<<blocks, 256, 0, held>>>(shared, 0);
  behind<<<blocks, 256, 0, held>>>(shared, 0, wrong);
  CHECK(cudaMemsetAsync(wrong, 0, sizeof *wrong, held));
  CHECK(cudaStreamSynchronize(held));
  std::atomic<bool> over{true};
  work_beside(&over);
  for (int round = 1; round <= kRounds; round++) {
    Call call{shared, round, 0, {false}};
    const bool by_graph = round == kRounds;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    if (by_graph) CHECK(cudaStreamBeginCapture(held, cudaStreamCaptureModeThreadLocal));
    before<<<blocks, 256, 0, held>>>(shared, round);
    CHECK(cudaLaunchHostFunc(held, function, &call));
    behind<<<blocks, 256, 0, held>>>(shared, round, wrong);
    if (by_graph) {
      CHECK(cudaStreamEndCapture(held, &graph));
      CHECK(cudaGraphInstantiate(&exec, graph, 0));
      CHECK(cudaGraphLaunch(exec, held));
      CHECK(cudaGraphDestroy(graph));
    }
    while (!call.entered) std::this_thread::yield();
    over = false;
    std::thread loads(load), works([&over] { work_beside(&over); });
    loads.join();
    CHECK(cudaStreamSynchronize(held));
    over = true;
    works.join();
    if (by_graph) CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaMemcpy(&seen, wrong, sizeof seen, cudaMemcpyDeviceToHost));
    printf("round %d: wrong on the host %d, on the device %d\n", round, call.wrong, seen);
  }
  CHECK(cudaStreamDestroy(held));
  CHECK(cudaFree(wrong));
  CHECK(cudaHostUnregister(shared.registered));
  CHECK(cudaFreeHost(shared.allocated));
  CHECK(cudaFree(shared.managed));
  return 0;
}
