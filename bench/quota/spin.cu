// Keeps a GPU busy with kernels of one length, or in bursts of them, in each form of launch.
//
//   spin calibrate                            how many turns a kernel makes in a millisecond
//   spin TURNS SECONDS FORM BATCH [BUSY PAUSE]  milliseconds of bursts
//
// FORM: plain; cooperative; streams: four, in turn; graph: a batch is one launch of a graph, kernel
// after kernel; host: behind each kernel a function of the program holds the stream for half a
// millisecond; host-streams: the same in four streams, so that there is always work.
//
// Two batches are on their way at a time, so that the device always has work. Ends with the number
// of kernels it has run.
#include <cooperative_groups.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#define CHECK(call)                                                         \
  do {                                                                      \
    const cudaError_t result = call;                                        \
    if (result != cudaSuccess) {                                            \
      fprintf(stderr, "spin: %s: %s\n", #call, cudaGetErrorString(result)); \
      exit(1);                                                              \
    }                                                                       \
  } while (0)

constexpr int kBlocks = 8, kThreads = 32, kStreams = 4;
constexpr std::chrono::microseconds kHeld(500);

__global__ void spin(unsigned turns, unsigned *out) {
  unsigned x = threadIdx.x;
  for (unsigned i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;
  if (x == 1) *out = x;
}

__global__ void spin_together(unsigned turns, unsigned *out) {
  unsigned x = threadIdx.x;
  for (unsigned i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;
  cooperative_groups::this_grid().sync();
  if (x == 1) *out = x;
}

// The stream waits meanwhile, and the device has nothing of it.
static void CUDART_CB hold(void *) { std::this_thread::sleep_for(kHeld); }

static cudaGraphExec_t graph_of(int kernels, void **arguments) {
  cudaGraph_t graph;
  cudaGraphNode_t node, before = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaKernelNodeParams kernel = {};
  kernel.func = (void *)spin;
  kernel.gridDim = kBlocks;
  kernel.blockDim = kThreads;
  kernel.kernelParams = arguments;
  for (int i = 0; i < kernels; i++, before = node)
    CHECK(
        cudaGraphAddKernelNode(&node, graph, before ? &before : nullptr, before ? 1 : 0, &kernel));
  cudaGraphExec_t made;
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return made;
}

using Clock = std::chrono::steady_clock;

static double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

int main(int argc, char **argv) {
  unsigned *out;
  CHECK(cudaMalloc(&out, sizeof *out));
  if (argc == 2 && strcmp(argv[1], "calibrate") == 0) {
    unsigned turns = 1000;
    double took = 0;
    // Long enough that what a launch costs does not count.
    for (; took < 50; turns *= 2) {
      const auto begin = Clock::now();
      spin<<<kBlocks, kThreads>>>(turns, out);
      CHECK(cudaDeviceSynchronize());
      took = milliseconds_since(begin);
    }
    printf("%.0f\n", turns / 2 / took);
    return 0;
  }
  if (argc != 5 && argc != 7) {
    fprintf(stderr, "usage: spin calibrate | spin TURNS SECONDS FORM BATCH [BUSY PAUSE]\n");
    return 2;
  }
  unsigned turns = (unsigned)strtoul(argv[1], nullptr, 10);
  const double seconds = strtod(argv[2], nullptr);
  const std::string form = argv[3];
  const int batch = atoi(argv[4]);
  const double busy = argc == 7 ? strtod(argv[5], nullptr) : 0;
  const double pause = argc == 7 ? strtod(argv[6], nullptr) : 0;

  cudaStream_t streams[kStreams] = {};
  cudaEvent_t ends[2][kStreams];
  const bool held = form == "host" || form == "host-streams";
  const int used = form == "streams" || form == "host-streams" ? kStreams : 1;
  for (int i = 0; i < used; i++) {
    if (used > 1) CHECK(cudaStreamCreate(&streams[i]));
    for (auto &batch_ends : ends)
      CHECK(cudaEventCreateWithFlags(&batch_ends[i], cudaEventDisableTiming));
  }
  void *arguments[] = {&turns, &out};
  const cudaGraphExec_t graph = form == "graph" ? graph_of(batch, arguments) : nullptr;
  const auto begin = Clock::now();
  auto burst = begin;
  unsigned long kernels = 0;
  for (int turn = 0; milliseconds_since(begin) < seconds * 1000; turn ^= 1) {
    if (graph) {
      CHECK(cudaGraphLaunch(graph, nullptr));
      kernels += (unsigned long)batch;
    }
    for (int i = 0; !graph && i < batch; i++, kernels++) {
      if (form == "cooperative") {
        CHECK(cudaLaunchCooperativeKernel((void *)spin_together, kBlocks, kThreads, arguments));
      } else {
        spin<<<kBlocks, kThreads, 0, streams[i % used]>>>(turns, out);
        CHECK(cudaGetLastError());
      }
      if (held) CHECK(cudaLaunchHostFunc(streams[i % used], hold, nullptr));
    }
    for (int i = 0; i < used; i++) CHECK(cudaEventRecord(ends[turn][i], streams[i]));
    // The batch before this one; at first, an event that was never recorded is done.
    for (int i = 0; i < used; i++) CHECK(cudaEventSynchronize(ends[turn ^ 1][i]));
    if (pause > 0 && milliseconds_since(burst) > busy) {
      CHECK(cudaDeviceSynchronize());
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(pause));
      burst = Clock::now();
    }
  }
  CHECK(cudaDeviceSynchronize());
  printf("%lu\n", kernels);
  return 0;
}
