// What a thread without a current context may do with objects of a context: they know theirs.
// flags: -lcuda
#include <cuda.h>

#include <thread>

#include "../check.h"

#define TELL(...)                           \
  do {                                      \
    const CUresult told = __VA_ARGS__;      \
    const char *name = "?";                 \
    cuGetErrorName(told, &name);            \
    printf("%s: %s\n", #__VA_ARGS__, name); \
  } while (0)

__global__ void add(int *to, int what) { *to += what; }

static CUstream stream, other;
static CUevent begin, end;
static CUdeviceptr memory, late;
static CUfunction kernel;
static int *pinned;
static CUgraph graph;
static CUgraphExec exec;

static void without_context() {
  CUcontext current;
  TELL(cuCtxGetCurrent(&current));
  printf("none: %d\n", current == nullptr);

  // Streams and events.
  TELL(cuEventRecord(begin, stream));
  int what = 5;
  void *arguments[] = {&memory, &what};
  TELL(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  TELL(cuEventRecord(end, stream));
  TELL(cuStreamWaitEvent(other, end, 0));
  TELL(cuEventSynchronize(end));
  TELL(cuEventQuery(end));
  float milliseconds = -1;
  TELL(cuEventElapsedTime(&milliseconds, begin, end));
  printf("time passed: %d\n", milliseconds >= 0);
  TELL(cuStreamSynchronize(stream));
  TELL(cuStreamQuery(stream));
  unsigned flags;
  int priority;
  CUcontext of_stream;
  TELL(cuStreamGetFlags(stream, &flags));
  TELL(cuStreamGetPriority(stream, &priority));
  TELL(cuStreamGetCtx(stream, &of_stream));
  CUstreamCaptureStatus status;
  TELL(cuStreamIsCapturing(stream, &status));

  // The null stream belongs to the current context.
  TELL(cuStreamSynchronize(nullptr));
  TELL(cuEventRecord(end, nullptr));

  // Copies.
  TELL(cuMemcpyDtoHAsync(pinned, memory, sizeof *pinned, stream));
  TELL(cuStreamSynchronize(stream));
  printf("sum %d\n", *pinned);
  *pinned = 7;
  TELL(cuMemcpyHtoDAsync(memory, pinned, sizeof *pinned, stream));
  TELL(cuMemsetD32Async(memory, 9, 1, stream));
  TELL(cuStreamSynchronize(stream));
  TELL(cuMemcpyDtoH(pinned, memory, sizeof *pinned));
  TELL(cuMemcpyHtoD(memory, pinned, sizeof *pinned));
  TELL(cuMemsetD32(memory, 3, 1));

  // Work of other kinds, in a stream that was made.
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 512;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = 1024;
  config.hStream = stream;
  TELL(cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  config.hStream = nullptr;
  TELL(cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  TELL(cuLaunchCooperativeKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments));
  TELL(cuLaunchHostFunc(
      stream, [](void *at) { ++*static_cast<int *>(at); }, pinned));
  TELL(cuMemcpyAsync(memory + 4, memory, 4, stream));
  TELL(cuMemsetD8Async(memory + 8, 1, 4, stream));
  CUDA_MEMCPY2D box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = memory;
  box.dstDevice = memory + 32;
  box.srcPitch = box.dstPitch = 16;
  box.WidthInBytes = 8;
  box.Height = 2;
  TELL(cuMemcpy2DAsync(&box, stream));
  TELL(cuStreamWriteValue32(stream, memory + 12, 4, 0));
  TELL(cuStreamWaitValue32(stream, memory + 12, 4, CU_STREAM_WAIT_VALUE_GEQ));
  unsigned long long number = 0;
  TELL(cuStreamGetId(stream, &number));
  TELL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  TELL(cuMemsetD32Async(memory, 2, 1, stream));
  CUgraph captured;
  TELL(cuStreamEndCapture(stream, &captured));
  TELL(cuGraphDestroy(captured));
  TELL(cuStreamSynchronize(stream));
  printf("called: %d, a number: %d\n", *pinned, number != 0);

  // Memory and what a pointer is.
  CUdeviceptr made = 0;
  TELL(cuMemAlloc(&made, 16));
  size_t free_bytes, total;
  TELL(cuMemGetInfo(&free_bytes, &total));
  CUmemorytype type;
  TELL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
  CUdeviceptr base;
  size_t size;
  TELL(cuMemGetAddressRange(&base, &size, memory));
  TELL(cuMemFreeAsync(late, stream));
  TELL(cuStreamSynchronize(stream));

  // Functions.
  int value;
  TELL(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel));
  TELL(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, kernel, 64, 0));

  // Graphs.
  TELL(cuGraphLaunch(exec, stream));
  TELL(cuStreamSynchronize(stream));
  size_t nodes = 0;
  TELL(cuGraphGetNodes(graph, nullptr, &nodes));
  printf("%zu node\n", nodes);
  TELL(cuGraphExecDestroy(exec));
  TELL(cuGraphDestroy(graph));

  // What would be made in the current context.
  CUstream none;
  CUevent never;
  TELL(cuStreamCreate(&none, 0));
  TELL(cuEventCreate(&never, 0));
  TELL(cuCtxSynchronize());

  // Ends.
  TELL(cuEventDestroy(begin));
  TELL(cuEventDestroy(end));
  TELL(cuStreamDestroy(other));
  TELL(cuStreamDestroy(stream));
  TELL(cuMemFree(memory));
  TELL(cuMemFreeHost(pinned));
}

int main() {
  CHECK(cudaFree(nullptr));
  CHECK(cudaGetFuncBySymbol(&kernel, reinterpret_cast<const void *>(add)));
  TELL(cuStreamCreate(&stream, 0));
  TELL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  TELL(cuEventCreate(&begin, 0));
  TELL(cuEventCreate(&end, 0));
  TELL(cuMemAlloc(&memory, 64));
  TELL(cuMemsetD32(memory, 0, 16));
  TELL(cuMemAllocAsync(&late, 64, stream));
  TELL(cuMemAllocHost(reinterpret_cast<void **>(&pinned), sizeof *pinned));
  TELL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  TELL(cuMemsetD32Async(memory, 2, 1, stream));
  TELL(cuStreamEndCapture(stream, &graph));
  TELL(cuGraphInstantiate(&exec, graph, 0));
  TELL(cuStreamSynchronize(stream));
  std::thread(without_context).join();
  return 0;
}
