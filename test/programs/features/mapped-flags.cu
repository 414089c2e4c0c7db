// Host and kernel signal each other through pinned memory while the kernel runs: allocated and
// registered, from the thread that launched and from another while that one waits; and streams that
// wait for values in it.
// flags: -lcuda
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "../check.h"

constexpr unsigned kEnd = 200;

// Answers each number with its square, until the end. A number of one byte: no device can be seen
// halfway through copying that.
__global__ void serve(volatile unsigned *asked, volatile unsigned *answered, unsigned *served) {
  unsigned last = 0;
  for (;;) {
    unsigned now = asked[0];
    if (now == last) continue;
    if (now == kEnd) break;
    last = now;
    answered[1] = now * now;
    __threadfence_system();
    answered[0] = now;
    *served += 1;
  }
}

// Doubles letters of a hundred words. The flag of the answer lies before it.
__global__ void echo(volatile unsigned *mail, unsigned rounds) {
  for (unsigned round = 1; round <= rounds; round++) {
    while (mail[0] != round) continue;
    for (unsigned i = 0; i < 100; i++) mail[201 + i] = 2 * mail[16 + i];
    __threadfence_system();
    mail[200] = round;
  }
}

__global__ void take(const unsigned *from, unsigned *to) { *to = *from + 1; }

// Returns the sum of the answers to 1 .. count.
static unsigned ask(volatile unsigned *asked, volatile unsigned *answered, unsigned count) {
  unsigned sum = 0;
  for (unsigned i = 1; i <= count; i++) {
    asked[0] = i;
    while (answered[0] != i) std::this_thread::yield();
    sum += answered[1];
  }
  asked[0] = kEnd;
  return sum;
}

static void CUDART_CB look(void *data) {
  auto *words = static_cast<unsigned *>(data);
  words[1] = words[0] + 100;
}

int main() {
  cudaStream_t stream, other;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  unsigned *words, *served;
  CHECK(cudaHostAlloc(&words, 4096, cudaHostAllocMapped));
  CHECK(cudaMallocHost(&served, sizeof *served));
  for (int i = 0; i < 1024; i++) words[i] = 0;
  *served = 0;

  serve<<<1, 1, 0, stream>>>(words, words + 16, served);
  printf("answers: %u\n", ask(words, words + 16, 10));
  CHECK(cudaStreamSynchronize(stream));
  printf("served %u\n", *served);

  // Another thread asks while this one waits.
  words[0] = words[16] = 0;
  std::atomic<unsigned> sum{0};
  serve<<<1, 1, 0, stream>>>(words, words + 16, served);
  std::thread asker([&] { sum = ask(words, words + 16, 5); });
  CHECK(cudaStreamSynchronize(stream));
  asker.join();
  printf("answers to another thread: %u, served %u\n", sum.load(), *served);

  // Letters of many words.
  volatile unsigned *mail = words + 512;
  unsigned wrong = 0;
  echo<<<1, 1, 0, stream>>>(mail, 8);
  for (unsigned round = 1; round <= 8; round++) {
    for (unsigned i = 0; i < 100; i++) mail[16 + i] = round * 1000 + i;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    mail[0] = round;
    while (mail[200] != round) std::this_thread::yield();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (unsigned i = 0; i < 100; i++) wrong += mail[201 + i] != 2 * (round * 1000 + i);
  }
  CHECK(cudaStreamSynchronize(stream));
  printf("wrong words in letters: %u\n", wrong);

  // Registered memory, and nothing at all is called meanwhile.
  auto *own = static_cast<unsigned *>(calloc(1000, 4)), *view = own;
  CHECK(cudaHostRegister(own, 4000, cudaHostRegisterMapped));
  CHECK(cudaHostGetDevicePointer(&view, own, 0));
  serve<<<1, 1, 0, stream>>>(view, view + 500, served);
  printf("answers in registered memory: %u\n", ask(own, own + 500, 6));
  CHECK(cudaStreamSynchronize(stream));

  // A stream waits for what the host writes, and the host for what the stream writes.
  auto address = [](unsigned *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
  own[900] = own[901] = own[902] = 0;
  cuStreamWaitValue32(stream, address(view + 900), 5, CU_STREAM_WAIT_VALUE_EQ);
  take<<<1, 1, 0, stream>>>(view + 900, view + 901);
  cuStreamWriteValue32(stream, address(view + 902), 77, 0);
  printf("it waits: %d\n", cudaStreamQuery(stream) == cudaErrorNotReady);
  __atomic_store_n(own + 900, 5u, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(own + 902, __ATOMIC_SEQ_CST) != 77) std::this_thread::yield();
  CHECK(cudaStreamSynchronize(stream));
  printf("taken %u, written %u\n", own[901], own[902]);

  // An event is enough to see what came before it, while something else still runs.
  cudaEvent_t done;
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  words[0] = words[16] = 0;
  words[100] = 1;
  serve<<<1, 1, 0, stream>>>(words, words + 16, served);
  for (int i = 0; i < 3; i++) {
    take<<<1, 1, 0, other>>>(words + 100 + i, words + 101 + i);
    CHECK(cudaEventRecord(done, other));
    if (i % 2 == 0) {
      CHECK(cudaEventSynchronize(done));
    } else {
      while (cudaEventQuery(done) == cudaErrorNotReady) std::this_thread::yield();
    }
    printf("after event %d: %u\n", i, words[101 + i]);
  }
  // A function that a stream calls sees it as well, and is seen.
  take<<<1, 1, 0, other>>>(words + 103, words + 200);
  CHECK(cudaLaunchHostFunc(other, look, words + 200));
  take<<<1, 1, 0, other>>>(words + 201, words + 202);
  CHECK(cudaStreamSynchronize(other));
  printf("through a function: %u\n", words[202]);
  printf("and still answers: %u\n", ask(words, words + 16, 3));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaHostUnregister(own));
  free(own);
  CHECK(cudaFreeHost(words));
  CHECK(cudaFreeHost(served));
  return 0;
}
