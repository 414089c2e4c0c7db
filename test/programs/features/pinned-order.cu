// Pinned memory is read when a copy's turn comes: what a copy or a function ahead of it in the
// stream, or in one that the stream waits for, has left there; and before a copy that waits
// returns.
// flags: -lcuda
#include "../check.h"
#include "../check_driver.h"

constexpr int kWide = 64, kHigh = 64, kCount = kWide * kHigh;
static int out[kCount];

static void CUDART_CB bump(void *data) {
  for (int i = 0; i < kCount; i++) static_cast<int *>(data)[i]++;
}

static int wrong(int value) {
  int count = 0;
  for (int each : out) count += each != value;
  return count != 0;
}

int main() {
  int *from, *to, *pinned, *plane, failed[6] = {};
  size_t pitch;
  cudaStream_t first, second;
  cudaEvent_t event;
  cudaArray_t array;
  const size_t bytes = kCount * sizeof(int), row = kWide * sizeof(int);
  CHECK(cudaMalloc(&from, bytes));
  CHECK(cudaMalloc(&to, bytes));
  CHECK(cudaMallocPitch(&plane, &pitch, row + 4, kHigh));
  CHECK(cudaMallocHost(&pinned, bytes));
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  CHECK(cudaMallocArray(&array, &format, kWide, kHigh));
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int round = 1; round <= 30; round++) {
    const int value = round * 0x01010101;
    // A copy of what another one brings.
    CHECK(cudaMemsetAsync(from, round, bytes, first));
    CHECK(cudaMemcpyAsync(pinned, from, bytes, cudaMemcpyDeviceToHost, first));
    CHECK(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, first));
    CHECK(cudaMemcpyAsync(out, to, bytes, cudaMemcpyDeviceToHost, first));
    CHECK(cudaStreamSynchronize(first));
    failed[0] += wrong(value);
    // Of what a function leaves, here and in another stream; and rows that lie apart.
    CHECK(cudaLaunchHostFunc(first, bump, pinned));
    CHECK(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, first));
    CHECK(cudaMemcpyAsync(out, to, bytes, cudaMemcpyDeviceToHost, first));
    CHECK(cudaStreamSynchronize(first));
    failed[1] += wrong(value + 1);
    CHECK(cudaLaunchHostFunc(second, bump, pinned));
    CHECK(cudaEventRecord(event, second));
    CHECK(cudaStreamWaitEvent(first, event, 0));
    CHECK(cudaMemcpy2DAsync(plane, pitch, pinned, row, row, kHigh, cudaMemcpyHostToDevice, first));
    CHECK(cudaMemcpy2DAsync(out, row, plane, pitch, row, kHigh, cudaMemcpyDeviceToHost, first));
    CHECK(cudaStreamSynchronize(first));
    failed[2] += wrong(value + 2);
    // One that waits has read it when it returns.
    CHECK(cudaLaunchHostFunc(second, bump, out));
    CHECK(cudaMemcpy(to, pinned, bytes, cudaMemcpyHostToDevice));
    for (int i = 0; i < kCount; i++) pinned[i] = -1;
    CHECK(cudaStreamSynchronize(second));
    CHECK(cudaMemcpy(out, to, bytes, cudaMemcpyDeviceToHost));
    failed[3] += wrong(value + 2);
    // The same into an array.
    for (int i = 0; i < kCount; i++) pinned[i] = value;
    CHECK(cudaLaunchHostFunc(second, bump, out));
    DRIVER(cuMemcpyHtoA(reinterpret_cast<CUarray>(array), 0, pinned, bytes));
    for (int i = 0; i < kCount; i++) pinned[i] = -1;
    CHECK(cudaStreamSynchronize(second));
    DRIVER(cuMemcpyAtoH(out, reinterpret_cast<CUarray>(array), 0, bytes));
    failed[5] += wrong(value);
    // From host to host.
    for (int i = 0; i < kCount; i++) pinned[i] = value;
    CHECK(cudaLaunchHostFunc(first, bump, pinned));
    CHECK(cudaMemcpyAsync(out, pinned, bytes, cudaMemcpyDefault, first));
    CHECK(cudaStreamSynchronize(first));
    failed[4] += wrong(value + 1);
  }
  for (int each : failed) printf("%d ", each);
  printf("wrong of 30\n");
  return 0;
}
