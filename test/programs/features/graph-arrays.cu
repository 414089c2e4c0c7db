// Graphs that copy arrays: built by hand and captured, planes and volumes, from and to the host's
// and the device's memory and other arrays, and what may change of such nodes. flags: -lcuda
#include <cstring>

#include "../check.h"
#include "../check_driver.h"

constexpr int kWidth = 24, kHeight = 10, kDepth = 3;

struct Plane {
  int at[kHeight][kWidth];
};

static Plane in, out, again;

__global__ void sum(cudaTextureObject_t texture, int *result) {
  int all = 0;
  for (int y = 0; y < kHeight; y++)
    for (int x = 0; x < kWidth; x++) all += tex2D<int>(texture, x, y);
  *result = all;
}

static void fill(Plane *plane, int seed) {
  for (int y = 0; y < kHeight; y++)
    for (int x = 0; x < kWidth; x++) plane->at[y][x] = seed * 1000 + y * kWidth + x;
}

static unsigned digest(const void *bytes, size_t size) {
  unsigned hash = 2166136261u;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ static_cast<const unsigned char *>(bytes)[i]) * 16777619u;
  return hash;
}

static cudaArray_t make_array(int width, int height, int depth) {
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  if (depth)
    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(width, height, depth)));
  else
    CHECK(cudaMallocArray(&array, &format, width, height));
  return array;
}

static void run(cudaGraphExec_t exec, cudaStream_t stream) {
  memset(&out, 0xee, sizeof out);
  memset(&again, 0xee, sizeof again);
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
}

// Host to array, array to array, to pitched memory and back to the host; a kernel reads a texture.
static void by_hand(cudaStream_t stream) {
  cudaArray_t first = make_array(kWidth, kHeight, 0), second = make_array(kWidth, kHeight, 0);
  cudaArray_t third = make_array(kWidth, kHeight, 0);
  void *memory;
  size_t pitch;
  int *result, host = 0;
  CHECK(cudaMallocPitch(&memory, &pitch, kWidth * sizeof(int), kHeight));
  CHECK(cudaMalloc(&result, sizeof *result));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = second;
  cudaTextureDesc how = {};
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));

  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t up, across, read, down, part, back;
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(&in, sizeof in.at[0], kWidth, kHeight);
  copy.dstArray = first;
  copy.extent = make_cudaExtent(kWidth, kHeight, 1);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaGraphAddMemcpyNode(&up, graph, nullptr, 0, &copy));
  cudaMemcpy3DParms arrays = {};
  arrays.srcArray = first;
  arrays.dstArray = second;
  arrays.extent = make_cudaExtent(kWidth, kHeight, 1);
  arrays.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaGraphAddMemcpyNode(&across, graph, &up, 1, &arrays));
  void *values[] = {&texture, &result};
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void *>(sum);
  kernel.gridDim = kernel.blockDim = dim3(1);
  kernel.kernelParams = values;
  CHECK(cudaGraphAddKernelNode(&read, graph, &across, 1, &kernel));
  cudaMemcpy3DParms linear = {};
  linear.srcArray = second;
  linear.dstPtr = make_cudaPitchedPtr(memory, pitch, kWidth, kHeight);
  linear.extent = make_cudaExtent(kWidth, kHeight, 1);
  linear.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaGraphAddMemcpyNode(&down, graph, &across, 1, &linear));
  // A part of it, from row 2, element 3, to another place in the third array and to the host.
  cudaMemcpy3DParms some = {};
  some.srcPtr = make_cudaPitchedPtr(memory, pitch, kWidth, kHeight);
  some.srcPos = make_cudaPos(3, 2, 0);
  some.dstArray = third;
  some.dstPos = make_cudaPos(1, 4, 0);
  some.extent = make_cudaExtent(7, 5, 1);
  some.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaGraphAddMemcpyNode(&part, graph, &down, 1, &some));
  cudaMemcpy3DParms host_copy = {};
  host_copy.srcArray = third;
  host_copy.srcPos = make_cudaPos(1, 4, 0);
  host_copy.dstPtr = make_cudaPitchedPtr(&out, sizeof out.at[0], kWidth, kHeight);
  host_copy.dstPos = make_cudaPos(2, 1, 0);
  host_copy.extent = make_cudaExtent(7, 5, 1);
  host_copy.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaGraphAddMemcpyNode(&back, graph, &part, 1, &host_copy));

  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 1; round <= 3; round++) {
    fill(&in, round);
    run(exec, stream);
    CHECK(cudaMemcpy(&host, result, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy2DFromArray(&again, sizeof again.at[0], second, 0, 0, sizeof again.at[0],
                                kHeight, cudaMemcpyDeviceToHost));
    printf("round %d: sum %d, part %d, digests %08x %s\n", round, host, out.at[1][2],
           digest(&out, sizeof out), memcmp(&in, &again, sizeof in) ? "differs" : "the same");
  }
  // Told as it was described.
  CUDA_MEMCPY3D told = {};
  SHOW_DRIVER(cuGraphMemcpyNodeGetParams(part, &told));
  printf("%d to %d: %zu %zu at %zu,%zu to %zu,%zu: %s\n", told.srcMemoryType, told.dstMemoryType,
         told.WidthInBytes, told.Height, told.srcXInBytes, told.srcY, told.dstXInBytes, told.dstY,
         told.dstArray == reinterpret_cast<CUarray>(third) ? "the third" : "another");
  // Another part, in the graph; a plane cannot change in what is executable.
  some.srcPos = make_cudaPos(0, 0, 0);
  CHECK(cudaGraphMemcpyNodeSetParams(part, &some));
  SHOW(cudaGraphExecMemcpyNodeSetParams(exec, part, &some));
  cudaGetLastError();
  cudaGraphExec_t other;
  CHECK(cudaGraphInstantiate(&other, graph, 0));
  run(other, stream);
  printf("the other part: %d, %08x\n", out.at[1][2], digest(&out, sizeof out));
  some.dstPos = make_cudaPos(kWidth - 6, 0, 0);
  SHOW(cudaGraphMemcpyNodeSetParams(part, &some));
  cudaGetLastError();
  CHECK(cudaGraphNodeSetEnabled(other, across, 0));
  fill(&in, 9);
  run(other, stream);
  printf("without the copy between: %d\n", out.at[1][2]);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphExecDestroy(other));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaDestroyTextureObject(texture));
  for (cudaArray_t array : {first, second, third}) CHECK(cudaFreeArray(array));
  CHECK(cudaFree(memory));
  CHECK(cudaFree(result));
}

static void captured(cudaStream_t stream) {
  cudaArray_t plane = make_array(kWidth, kHeight, 0), other = make_array(kWidth, kHeight, 0);
  cudaArray_t volume = make_array(kWidth, kHeight, kDepth);
  static Plane volume_in[kDepth], volume_out[kDepth];
  void *memory;
  CHECK(cudaMalloc(&memory, sizeof(Plane)));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpy2DToArrayAsync(plane, 0, 0, &in, sizeof in.at[0], sizeof in.at[0], kHeight,
                                 cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpy2DFromArrayAsync(memory, sizeof in.at[0], plane, 0, 0, sizeof in.at[0], kHeight,
                                   cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaMemcpy2DToArrayAsync(other, 4 * sizeof(int), 1, memory, sizeof in.at[0],
                                 5 * sizeof(int), 3, cudaMemcpyDeviceToDevice, stream));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(volume_in, sizeof in.at[0], kWidth, kHeight);
  copy.dstArray = volume;
  copy.extent = make_cudaExtent(kWidth, kHeight, kDepth);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3DAsync(&copy, stream));
  cudaMemcpy3DParms slice = {};  // of the volume into the plane
  slice.srcArray = volume;
  slice.srcPos = make_cudaPos(2, 3, 1);
  slice.dstArray = other;
  slice.dstPos = make_cudaPos(0, 6, 0);
  slice.extent = make_cudaExtent(10, 4, 1);
  slice.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaMemcpy3DAsync(&slice, stream));
  CHECK(cudaMemcpy2DFromArrayAsync(&out.at[1][4], sizeof in.at[0], other, 4 * sizeof(int), 1,
                                   5 * sizeof(int), 3, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMemcpy2DFromArrayAsync(&again, sizeof in.at[0], other, 0, 6, 10 * sizeof(int), 4,
                                   cudaMemcpyDeviceToHost, stream));
  cudaMemcpy3DParms down = {};
  down.srcArray = volume;
  down.dstPtr = make_cudaPitchedPtr(volume_out, sizeof in.at[0], kWidth, kHeight);
  down.extent = make_cudaExtent(kWidth, kHeight, kDepth);
  down.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3DAsync(&down, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t nodes[8];
  size_t count = 8;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  CUDA_MEMCPY3D told = {};
  SHOW_DRIVER(cuGraphMemcpyNodeGetParams(nodes[4], &told));
  printf("%zu nodes; %d to %d, %zu %zu %zu to %zu %zu %zu: %s\n", count, told.srcMemoryType,
         told.dstMemoryType, told.srcXInBytes, told.srcY, told.srcZ, told.dstXInBytes, told.dstY,
         told.dstZ, told.srcArray == reinterpret_cast<CUarray>(volume) ? "the volume" : "another");
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 1; round <= 3; round++) {
    fill(&in, 10 + round);
    for (int z = 0; z < kDepth; z++) fill(&volume_in[z], 100 * round + z);
    memset(volume_out, 0, sizeof volume_out);
    run(exec, stream);
    printf("round %d: %d %d %08x %08x, the volume %s\n", round, out.at[1][4], again.at[0][0],
           digest(&out, sizeof out), digest(&again, sizeof again),
           memcmp(volume_in, volume_out, sizeof volume_in) ? "differs" : "is the same");
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  for (cudaArray_t array : {plane, other, volume}) CHECK(cudaFreeArray(array));
  CHECK(cudaFree(memory));
}

static cudaGraph_t line(cudaArray_t array, int *from, int *to, int count, cudaStream_t stream) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SHOW_DRIVER(
      cuMemcpyHtoAAsync(reinterpret_cast<CUarray>(array), 0, from, count * sizeof(int), stream));
  SHOW_DRIVER(
      cuMemcpyAtoHAsync(to, reinterpret_cast<CUarray>(array), 0, count * sizeof(int), stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

// Bytes in a row over slices: as many copies as there are boxes that they make up.
static void rows_and_slices(cudaStream_t stream) {
  constexpr int row = 6, rows = 4, slices = 5, slice = row * rows, all = slice * slices;
  static int from[all], to[all];
  cudaArray_t volume = make_array(row, rows, slices);
  for (int i = 0; i < all; i++) from[i] = i + 1;
  const struct {
    int at, count;
  } parts[] = {
      {0, all}, {slice, 2 * slice}, {row, slice}, {slice - row, slice + 2 * row}, {2, all - 4}};
  for (const auto &part : parts) {
    cudaGraph_t graph;
    const size_t at = part.at * sizeof(int), bytes = part.count * sizeof(int);
    memset(to, 0, sizeof to);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    SHOW_DRIVER(cuMemcpyHtoAAsync(reinterpret_cast<CUarray>(volume), at, from, bytes, stream));
    SHOW_DRIVER(cuMemcpyAtoHAsync(to, reinterpret_cast<CUarray>(volume), at, bytes, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    size_t nodes;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    run(exec, stream);
    printf("from %d, %d of them: %zu nodes, %08x\n", part.at, part.count, nodes,
           digest(to, sizeof to));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
  }
  CHECK(cudaFreeArray(volume));
}

// One-dimensional copies may change, from one array to another.
static void changed(cudaStream_t stream) {
  int from[16], to[16], later[16];
  cudaArray_t first = make_array(16, 0, 0), second = make_array(16, 0, 0);
  for (int i = 0; i < 16; i++) from[i] = i * i, later[i] = -i;
  cudaGraph_t graph = line(first, from, to, 16, stream);
  cudaGraph_t next = line(second, later, to, 12, stream);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("%d %d\n", to[11], to[15]);
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(exec, next, &info));
  // Nothing names it any more.
  CHECK(cudaFreeArray(first));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("%d %d\n", to[11], to[15]);
  // One node of it; but memory for an array is another type.
  cudaGraphNode_t nodes[2];
  size_t count = 2;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  CUcontext context;
  cuCtxGetCurrent(&context);
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = reinterpret_cast<CUarray>(second);
  copy.srcXInBytes = 8;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  copy.WidthInBytes = 5 * sizeof(int);
  copy.Height = copy.Depth = 1;
  SHOW_DRIVER(cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copy, context));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("%d %d %d\n", to[0], to[4], to[5]);
  void *memory;
  CHECK(cudaMalloc(&memory, sizeof to));
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(memory);
  SHOW_DRIVER(cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copy, context));
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcXInBytes = 6;
  SHOW_DRIVER(cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copy, context));
  copy.srcXInBytes = 15 * sizeof(int);
  SHOW_DRIVER(cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copy, context));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(next));
  CHECK(cudaFreeArray(second));
  CHECK(cudaFree(memory));
}

int main() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  by_hand(stream);
  captured(stream);
  rows_and_slices(stream);
  changed(stream);
  CHECK(cudaStreamDestroy(stream));
  return 0;
}
