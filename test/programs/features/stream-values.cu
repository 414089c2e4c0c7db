// Streams that wait for values in memory and write them: a kernel and the host as signals.
// flags: -lcuda
#include <cuda.h>
#include <cstdio>

#include "../check.h"
#include "../check_driver.h"

__global__ void signal(unsigned *flag, unsigned *data) {
  *data = 42;
  __threadfence_system();
  atomicExch(flag, 1u);
}
__global__ void take(const unsigned *data, unsigned *result) { *result = *data + 1; }

int main() {
  cudaStream_t first, second;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  unsigned *flag, *data, *words;
  CHECK(cudaMalloc(&flag, 8));
  CHECK(cudaMalloc(&data, 8));
  CHECK(cudaMemset(flag, 0, 8));
  CHECK(cudaHostAlloc(&words, 4 * sizeof *words, cudaHostAllocMapped));
  words[0] = words[1] = words[2] = words[3] = 0;
  auto address = [](void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
  CHECK(cudaDeviceSynchronize());

  // The second stream waits for what a kernel of the first one writes.
  DRIVER(cuStreamWaitValue32(second, address(flag), 1, CU_STREAM_WAIT_VALUE_EQ));
  take<<<1, 1, 0, second>>>(data, words);
  printf("before the signal: %d\n", cudaStreamQuery(second) == cudaErrorNotReady);
  signal<<<1, 1, 0, first>>>(flag, data);
  CHECK(cudaStreamSynchronize(second));
  printf("after the signal: %u\n", words[0]);

  // The host lets a stream go on, and the stream tells the host.
  CUstreamBatchMemOpParams list[3] = {};
  list[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  list[0].waitValue.address = address(words + 1);
  list[0].waitValue.value = 10;
  list[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  list[1].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  list[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  list[2].writeValue.address = address(words + 2);
  list[2].writeValue.value64 = 0x100000007;
  DRIVER(cuStreamBatchMemOp(first, 3, list, 0));
  __atomic_store_n(words + 1, 11u, __ATOMIC_SEQ_CST);
  CHECK(cudaStreamSynchronize(first));
  printf("a stream wrote %u and %u\n", words[2], words[3]);
  CHECK(cudaFree(flag));
  CHECK(cudaFree(data));
  CHECK(cudaFreeHost(words));
  return 0;
}
