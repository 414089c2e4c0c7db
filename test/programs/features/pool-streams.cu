// Stream-ordered allocation in a loop: what one stream frees is used again without waiting, and
// what another still uses is not.
#include <cstdio>
#include <vector>

#include "../check.h"

__global__ void fill(unsigned *values, unsigned value, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) values[i] = value;
}
__global__ void copy(const unsigned *from, unsigned *to, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

int main() {
  constexpr unsigned count = 1 << 16, rounds = 200, streams = 4;
  constexpr size_t bytes = count * sizeof(unsigned);
  cudaStream_t stream[streams];
  unsigned *results;
  for (cudaStream_t &s : stream) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&results, rounds * sizeof(unsigned)));

  // Every round in a stream of its own turn: no address is handed on before its user is done.
  for (unsigned i = 0; i < rounds; i++) {
    cudaStream_t s = stream[i % streams];
    unsigned *values;
    CHECK(cudaMallocAsync(&values, bytes, s));
    fill<<<1, 256, 0, s>>>(values, i, count);
    copy<<<1, 1, 0, s>>>(values + count - 1, results + i, 1);
    CHECK(cudaGetLastError());
    CHECK(cudaFreeAsync(values, s));
  }
  CHECK(cudaDeviceSynchronize());
  std::vector<unsigned> seen(rounds);
  CHECK(cudaMemcpy(seen.data(), results, rounds * sizeof(unsigned), cudaMemcpyDeviceToHost));
  unsigned wrong = 0;
  for (unsigned i = 0; i < rounds; i++) wrong += seen[i] != i;
  printf("%u rounds in %u streams: %u wrong\n", rounds, streams, wrong);

  // Freed in a stream that an event orders behind the user.
  unsigned *shared, *out;
  cudaEvent_t used;
  CHECK(cudaEventCreateWithFlags(&used, cudaEventDisableTiming));
  CHECK(cudaMallocAsync(&shared, bytes, stream[0]));
  CHECK(cudaMallocAsync(&out, bytes, stream[0]));
  fill<<<1, 256, 0, stream[0]>>>(shared, 77, count);
  copy<<<1, 32, 0, stream[0]>>>(shared, out, count);
  CHECK(cudaEventRecord(used, stream[0]));
  CHECK(cudaStreamWaitEvent(stream[1], used, 0));
  CHECK(cudaFreeAsync(shared, stream[1]));
  unsigned *next;
  CHECK(cudaMallocAsync(&next, bytes, stream[1]));
  fill<<<1, 256, 0, stream[1]>>>(next, 1, count);
  CHECK(cudaFreeAsync(next, stream[1]));
  std::vector<unsigned> host(count);
  CHECK(cudaMemcpyAsync(host.data(), out, bytes, cudaMemcpyDeviceToHost, stream[0]));
  CHECK(cudaStreamSynchronize(stream[0]));
  wrong = 0;
  for (unsigned value : host) wrong += value != 77;
  printf("copied before it was freed: %u wrong\n", wrong);
  CHECK(cudaFreeAsync(out, stream[0]));
  SHOW(cudaFreeAsync(out, stream[0]));
  cudaGetLastError();
  SHOW(cudaMemsetAsync(out, 0, 4, stream[0]));
  cudaGetLastError();
  CHECK(cudaDeviceSynchronize());

  // Figures of the default pool and of an own one, and which is which.
  cudaMemPool_t normal, current, own;
  CHECK(cudaDeviceGetDefaultMemPool(&normal, 0));
  CHECK(cudaDeviceGetMemPool(&current, 0));
  printf("the default pool is the current one: %d\n", normal == current);
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  CHECK(cudaMemPoolCreate(&own, &properties));
  CHECK(cudaDeviceSetMemPool(0, own));
  unsigned *a, *b;
  CHECK(cudaMallocAsync(&a, 1000, stream[2]));
  CHECK(cudaMallocFromPoolAsync(&b, 3 << 20, own, stream[3]));
  unsigned long long used_now, high, zero = 0;
  CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used_now));
  printf("used: %llu\n", used_now);
  CHECK(cudaFreeAsync(b, stream[3]));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used_now));
  CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemHigh, &high));
  printf("used: %llu, at most %llu\n", used_now, high);
  CHECK(cudaMemPoolSetAttribute(own, cudaMemPoolAttrUsedMemHigh, &zero));
  CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemHigh, &high));
  printf("at most, since: %llu\n", high);
  int reuse = -1;
  CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolReuseAllowOpportunistic, &reuse));
  printf("reuse: %d\n", reuse);
  cudaPointerAttributes about;
  CHECK(cudaPointerGetAttributes(&about, a));
  printf("type %d on device %d\n", about.type, about.device);
  cudaMemAccessFlags flags;
  cudaMemLocation location = {cudaMemLocationTypeDevice, 0};
  CHECK(cudaMemPoolGetAccess(&flags, own, &location));
  printf("access: %d\n", flags);
  SHOW(cudaMemPoolDestroy(normal));
  cudaGetLastError();
  CHECK(cudaMemPoolDestroy(own));
  CHECK(cudaDeviceGetMemPool(&current, 0));
  printf("the default pool is the current one again: %d\n", normal == current);
  CHECK(cudaFree(a));
  CHECK(cudaFree(results));
  return 0;
}
