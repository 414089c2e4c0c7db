// First versions of calls that have changed since: captures, values in memory, batches of copies,
// advice and prefetches.
// flags: -lcuda -ldl
#include "../check.h"
#include "../check_driver.h"
#include "../old_call.h"

__global__ void increment(int *value) { ++*value; }

int main() {
  CHECK(cudaFree(nullptr));
  CUstream stream, other;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DRIVER(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CUdeviceptr memory;
  DRIVER(cuMemAlloc(&memory, 4096));
  DRIVER(cuMemsetD8(memory, 0, 4096));
  int *value = reinterpret_cast<int *>(memory), host = -1;

  printf("-- captures\n");
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  cuuint64_t id = 0, same = 0;
  CUgraph graph = nullptr, ended;
  const CUgraphNode *dependencies = nullptr;
  const CUgraphEdgeData *edges = nullptr;
  size_t count = 99;
  SHOW_DRIVER(OLD_CALL(cuStreamBeginCapture, CUstream)(stream));
  increment<<<1, 1, 0, stream>>>(value);
  SHOW_DRIVER(OLD_CALL(cuStreamGetCaptureInfo, CUstream, CUstreamCaptureStatus *, cuuint64_t *)(
      stream, &status, &id));
  printf("status %d\n", status);
  DRIVER(OLD_CALL(cuStreamGetCaptureInfo_v2, CUstream, CUstreamCaptureStatus *, cuuint64_t *,
                  CUgraph *, const CUgraphNode **,
                  size_t *)(stream, &status, &same, &graph, &dependencies, &count));
  printf("status %d, the same: %d, %zu before\n", status, id == same, count);
  CUgraphNode kernel = dependencies[0], empty;
  SHOW_DRIVER(OLD_CALL(cuStreamGetCaptureInfo_v3, CUstream, CUstreamCaptureStatus *, cuuint64_t *,
                       CUgraph *, const CUgraphNode **, const CUgraphEdgeData **,
                       size_t *)(stream, &status, &same, &graph, &dependencies, &edges, &count));
  printf("status %d, the same: %d, %zu before\n", status, id == same, count);
  DRIVER(cuGraphAddEmptyNode(&empty, graph, nullptr, 0));
  SHOW_DRIVER(OLD_CALL(cuStreamUpdateCaptureDependencies, CUstream, CUgraphNode *, size_t,
                       unsigned)(stream, &empty, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  DRIVER(cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr, &count));
  printf("%zu before\n", count);
  SHOW_DRIVER(OLD_CALL(cuStreamUpdateCaptureDependencies_v2, CUstream, CUgraphNode *,
                       const CUgraphEdgeData *, size_t,
                       unsigned)(stream, &kernel, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  DRIVER(cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr, &count));
  printf("%zu before\n", count);
  SHOW_DRIVER(OLD_CALL(cuStreamUpdateCaptureDependencies, CUstream, CUgraphNode *, size_t,
                       unsigned)(other, &empty, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  increment<<<1, 1, 0, stream>>>(value);
  DRIVER(cuStreamEndCapture(stream, &ended));
  SHOW_DRIVER(OLD_CALL(cuStreamGetCaptureInfo, CUstream, CUstreamCaptureStatus *, cuuint64_t *)(
      stream, &status, &id));
  printf("status %d\n", status);
  CUgraphExec exec;
  DRIVER(cuGraphInstantiate(&exec, ended, 0));
  DRIVER(cuGraphLaunch(exec, stream));
  DRIVER(cuStreamSynchronize(stream));
  DRIVER(cuMemcpyDtoH(&host, memory, sizeof host));
  printf("incremented: %d\n", host);
  DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuGraphDestroy(ended));

  printf("-- values in memory\n");
  SHOW_DRIVER(OLD_CALL(cuStreamWriteValue32, CUstream, CUdeviceptr, cuuint32_t, unsigned)(
      stream, memory + 64, 7, 0));
  SHOW_DRIVER(OLD_CALL(cuStreamWaitValue32, CUstream, CUdeviceptr, cuuint32_t, unsigned)(
      other, memory + 64, 7, CU_STREAM_WAIT_VALUE_EQ));
  SHOW_DRIVER(OLD_CALL(cuStreamWriteValue64, CUstream, CUdeviceptr, cuuint64_t, unsigned)(
      stream, memory + 72, 7ull << 40, 0));
  SHOW_DRIVER(OLD_CALL(cuStreamWaitValue64, CUstream, CUdeviceptr, cuuint64_t, unsigned)(
      other, memory + 72, 1ull << 40, CU_STREAM_WAIT_VALUE_GEQ));
  SHOW_DRIVER(cuStreamWaitValue64(other, memory + 72, 4ull << 40, CU_STREAM_WAIT_VALUE_AND));
  SHOW_DRIVER(cuStreamWaitValue32(other, memory + 64, ~7u - 1, CU_STREAM_WAIT_VALUE_NOR));
  CUstreamBatchMemOpParams operations[1] = {};
  operations[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, memory + 64, {}, 0, 0};
  operations[0].writeValue.value = 9;
  SHOW_DRIVER(OLD_CALL(cuStreamBatchMemOp, CUstream, unsigned, CUstreamBatchMemOpParams *,
                       unsigned)(other, 1, operations, 0));
  SHOW_DRIVER(cuStreamSynchronize(other));
  DRIVER(cuMemcpyDtoH(&host, memory + 64, sizeof host));
  printf("%d\n", host);

  printf("-- batches of copies\n");
  CUdeviceptr to[] = {memory + 1024, memory + 2048}, from[] = {memory, memory + 64};
  size_t sizes[] = {16, 32}, first = 0, failed = 99;
  CUmemcpyAttributes attributes = {};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  SHOW_DRIVER(OLD_CALL(cuMemcpyBatchAsync, CUdeviceptr *, CUdeviceptr *, size_t *, size_t,
                       CUmemcpyAttributes *, size_t *, size_t, size_t *,
                       CUstream)(to, from, sizes, 2, &attributes, &first, 1, &failed, stream));
  sizes[1] = 1 << 30;
  SHOW_DRIVER(OLD_CALL(cuMemcpyBatchAsync, CUdeviceptr *, CUdeviceptr *, size_t *, size_t,
                       CUmemcpyAttributes *, size_t *, size_t, size_t *,
                       CUstream)(to, from, sizes, 2, &attributes, &first, 1, &failed, stream));
  CUDA_MEMCPY3D_BATCH_OP box = {};
  box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  box.src.op.ptr.ptr = memory;
  box.dst.op.ptr.ptr = memory + 3072;
  box.src.op.ptr.locHint = box.dst.op.ptr.locHint = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  box.src.op.ptr.rowLength = box.dst.op.ptr.rowLength = 16;
  box.src.op.ptr.layerHeight = box.dst.op.ptr.layerHeight = 4;
  box.extent = {8, 4, 2};
  box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  SHOW_DRIVER(OLD_CALL(cuMemcpy3DBatchAsync, size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *,
                       unsigned long long, CUstream)(1, &box, &failed, 0, stream));
  SHOW_DRIVER(cuStreamSynchronize(stream));
  DRIVER(cuMemcpyDtoH(&host, memory + 2048, sizeof host));
  printf("%d", host);
  DRIVER(cuMemcpyDtoH(&host, memory + 3072 + 64, sizeof host));
  printf(" %d\n", host);

  printf("-- managed memory\n");
  CUdeviceptr managed;
  DRIVER(cuMemAllocManaged(&managed, 1 << 16, CU_MEM_ATTACH_GLOBAL));
  SHOW_DRIVER(OLD_CALL(cuMemAdvise, CUdeviceptr, size_t, CUmem_advise, CUdevice)(
      managed, 1 << 16, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
  SHOW_DRIVER(OLD_CALL(cuMemAdvise, CUdeviceptr, size_t, CUmem_advise, CUdevice)(
      managed, 1 << 16, CU_MEM_ADVISE_SET_ACCESSED_BY, 1000));
  SHOW_DRIVER(OLD_CALL(cuMemPrefetchAsync, CUdeviceptr, size_t, CUdevice, CUstream)(
      managed, 1 << 16, 0, stream));
  SHOW_DRIVER(OLD_CALL(cuMemPrefetchAsync, CUdeviceptr, size_t, CUdevice, CUstream)(
      managed, 1 << 16, CU_DEVICE_CPU, stream));
  SHOW_DRIVER(OLD_CALL(cuMemPrefetchAsync, CUdeviceptr, size_t, CUdevice, CUstream)(
      managed, 1 << 16, 1000, stream));

  printf("-- handles\n");
  CUipcMemHandle handle = {};
  CUdeviceptr opened;
  DRIVER(cuIpcGetMemHandle(&handle, memory));
  SHOW_DRIVER(OLD_CALL(cuIpcOpenMemHandle, CUdeviceptr *, CUipcMemHandle, unsigned)(
      &opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));

  DRIVER(cuMemFree(managed));
  DRIVER(cuMemFree(memory));
  DRIVER(cuStreamDestroy(stream));
  DRIVER(cuStreamDestroy(other));
  return 0;
}
