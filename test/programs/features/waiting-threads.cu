// Threads that wait, each in another way, for what another thread does later: none keeps it from
// doing it.
// flags: -lcuda
#include <cuda.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "../check.h"
#include "../check_driver.h"

static CUdeviceptr address(void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

static cudaStream_t make() {
  cudaStream_t stream;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) exit(1);
  return stream;
}

// A stream that goes on when the word is 1.
static unsigned *word;
static cudaStream_t held() {
  cudaStream_t stream = make();
  DRIVER(cuStreamWaitValue32(stream, address(word), 1, CU_STREAM_WAIT_VALUE_EQ));
  return stream;
}

static std::atomic<bool> flag, called;
static std::atomic<int> waiting;

constexpr size_t kLarge = 96u << 20;

int main() {
  unsigned char *large, *to;
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMalloc(&large, kLarge));
  CHECK(cudaMallocHost(&to, kLarge));
  CHECK(cudaMemset(word, 0, sizeof *word));
  CHECK(cudaMemset(large, 7, kLarge));
  CHECK(cudaDeviceSynchronize());

  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  auto add = [&](auto wait) {
    threads.emplace_back([&right, wait] {
      waiting++;
      right += wait();
    });
  };
  add([] { return cudaStreamSynchronize(held()) == cudaSuccess; });
  add([] {
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventBlockingSync);
    cudaEventRecord(event, held());
    return cudaEventSynchronize(event) == cudaSuccess;
  });
  add([&] {  // a blocking copy, into memory of the program
    std::vector<unsigned char> mine(1 << 20);
    cudaStream_t stream = held();
    cudaMemcpyAsync(mine.data(), large, mine.size(), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    return mine.front() == 7 && mine.back() == 7;
  });
  add([&] {  // more than the driver copies at once, and work behind it
    cudaStream_t stream = held();
    cudaEvent_t event;
    cudaEventCreate(&event);
    cudaMemcpyAsync(to, large, kLarge, cudaMemcpyDeviceToHost, stream);
    cudaMemsetAsync(large, 8, kLarge, stream);
    cudaEventRecord(event, stream);
    bool busy = cudaStreamQuery(stream) == cudaErrorNotReady;
    while (cudaEventQuery(event) == cudaErrorNotReady) std::this_thread::yield();
    return busy && to[0] == 7 && to[kLarge - 1] == 7;
  });
  add([] {
    cudaStream_t stream = make();
    cudaLaunchHostFunc(
        stream,
        [](void *) {
          while (!flag) std::this_thread::yield();
          called = true;
        },
        nullptr);
    return cudaStreamSynchronize(stream) == cudaSuccess && called;
  });
  add([] {
    cudaStream_t stream = held();
    while (cudaStreamQuery(stream) == cudaErrorNotReady) std::this_thread::yield();
    return cudaStreamQuery(stream) == cudaSuccess;
  });
  while (waiting < 6) std::this_thread::yield();
  // All sorts of calls meanwhile.
  cudaStream_t stream = make();
  unsigned char *mine, bytes[256];
  for (int i = 0; i < 50; i++) {
    CHECK(cudaMalloc(&mine, 256));
    CHECK(cudaMemsetAsync(mine, i, 256, stream));
    CHECK(cudaMemcpyAsync(bytes, mine, 256, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (bytes[255] != i) return fprintf(stderr, "%d instead of %d\n", bytes[255], i), 1;
    CHECK(cudaFreeAsync(mine, stream));
  }
  flag = true;
  DRIVER(cuStreamWriteValue32(stream, address(word), 1, 0));
  for (std::thread &thread : threads) thread.join();
  printf("%d of 6 threads saw what they waited for\n", right.load());
  CHECK(cudaDeviceSynchronize());

  // Much is queued behind a function that waits for this very thread.
  CHECK(cudaMemset(large, 1, kLarge));
  CHECK(cudaDeviceSynchronize());
  flag = called = false;
  CHECK(cudaLaunchHostFunc(
      stream,
      [](void *) {
        while (!flag) std::this_thread::yield();
      },
      nullptr));
  for (size_t i = 0; i < kLarge; i++) to[i] = static_cast<unsigned char>(i * 31 >> 3);
  CHECK(cudaMemcpyAsync(large, to, kLarge, cudaMemcpyHostToDevice, stream));
  unsigned char *back;
  CHECK(cudaMallocHost(&back, kLarge));
  CHECK(cudaMemcpyAsync(back, large, kLarge, cudaMemcpyDeviceToHost, stream));
  for (int i = 0; i < 400; i++)
    CHECK(cudaMemcpyAsync(back + i, large + i, 1, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMemsetAsync(large, 0, kLarge, stream));
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamWaitEvent(make(), event, 0));
  printf("queued behind it: %d\n", cudaStreamQuery(stream) == cudaErrorNotReady);
  flag = true;
  CHECK(cudaStreamSynchronize(stream));
  printf("copied there and back: %d\n", memcmp(to, back, kLarge) == 0);

  // A 64-bit value, and a list of them.
  CUstreamBatchMemOpParams list[4] = {};
  unsigned long long *words, there[3];
  CHECK(cudaMalloc(&words, sizeof there));
  CHECK(cudaMemset(words, 0, sizeof there));
  CHECK(cudaDeviceSynchronize());
  list[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, address(words)};
  list[0].writeValue.value64 = 0x100000007;
  list[1].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  list[2].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_64, address(words + 1)};
  list[2].waitValue.value64 = 1ull << 40;
  list[2].waitValue.flags = CU_STREAM_WAIT_VALUE_AND;
  list[3].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, address(words + 2)};
  list[3].writeValue.value = 3;
  cudaStream_t other = make();
  DRIVER(cuStreamBatchMemOp(stream, 4, list, 0));
  DRIVER(cuStreamWriteValue64(other, address(words + 1), 3ull << 40, 0));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(there, words, sizeof there, cudaMemcpyDeviceToHost));
  printf("values %llx %llx %llx\n", there[0], there[1], there[2]);
  auto name = [](CUresult result) {
    const char *text;
    cuGetErrorName(result, &text);
    return text;
  };
  printf("unaligned: %s\n", name(cuStreamWriteValue32(stream, address(words) + 2, 1, 0)));
  printf("nowhere: %s\n", name(cuStreamWaitValue32(stream, 64, 1, 0)));
  printf("flags: %s\n", name(cuStreamWaitValue32(stream, address(words), 1, 9)));
  printf("none: %s\n", name(cuStreamBatchMemOp(stream, 0, list, 0)));
  list[1].operation = static_cast<CUstreamBatchMemOpType>(99);
  printf("unknown: %s\n", name(cuStreamBatchMemOp(stream, 2, list, 0)));
  return 0;
}
