// Functions of the program in several streams: in the order that events make, while nobody waits
// for them, behind one another, and refused where CUDA refuses them.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "../check.h"

__global__ void add(int *at, int value) { *at += value; }

static int *device_word;
static std::atomic<int> turns;
struct Turn {
  int at, found;
};
static void take_turn(void *data) { static_cast<Turn *>(data)->found = turns++; }

static std::atomic<bool> open_, reached, after;
static void wait_until_open(void *) {
  reached = true;
  while (!open_) std::this_thread::sleep_for(std::chrono::microseconds(100));
}
static void mark(void *flag) { *static_cast<std::atomic<bool> *>(flag) = true; }
static void until(const std::atomic<bool> &flag) {
  while (!flag) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

static std::atomic<int> told_status{-1};
static cudaStream_t told_stream;
static void told(cudaStream_t stream, cudaError_t status, void *) {
  told_stream = stream;
  told_status = status;
}

static cudaError_t inside[3];
static void calls_cuda(void *) {
  int count;
  cudaStream_t stream;
  inside[0] = cudaMemset(device_word, 0, 4);
  inside[1] = cudaGetDeviceCount(&count);
  inside[2] = cudaStreamCreate(&stream);
}

// A function finds what was copied to pinned memory ahead of it, in its stream or in another one
// that its stream has waited for.
constexpr int kBlock = 4096;
static int *landed, expected;
static std::atomic<int> stale;
static void look(void *) {
  for (int i = 0; i < kBlock; i++)
    if (landed[i] != expected) {
      stale++;
      return;
    }
}

static void find_what_was_copied(cudaStream_t first, cudaStream_t second) {
  int *block;
  cudaEvent_t copied;
  CHECK(cudaMalloc(&block, kBlock * sizeof(int)));
  CHECK(cudaMallocHost(&landed, kBlock * sizeof(int)));
  CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  for (int round = 1; round <= 60; round++) {
    expected = round * 0x01010101;
    CHECK(cudaMemsetAsync(block, round, kBlock * sizeof(int), first));
    CHECK(cudaMemcpyAsync(landed, block, kBlock * sizeof(int), cudaMemcpyDeviceToHost, first));
    cudaStream_t looks = round % 2 ? first : second;
    if (looks == second) {
      CHECK(cudaEventRecord(copied, first));
      CHECK(cudaStreamWaitEvent(second, copied, 0));
    }
    CHECK(cudaLaunchHostFunc(looks, look, nullptr));
    CHECK(cudaStreamSynchronize(looks));
  }
  printf("%d of 60 functions came before their copies\n", stale.load());
  CHECK(cudaEventDestroy(copied));
  CHECK(cudaFreeHost(landed));
  CHECK(cudaFree(block));
}

int main() {
  cudaStream_t first, second, third;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&third));
  CHECK(cudaMalloc(&device_word, sizeof(int)));
  CHECK(cudaMemset(device_word, 0, sizeof(int)));
  CHECK(cudaDeviceSynchronize());

  // Two streams take turns, by events.
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Turn list[20];
  for (int i = 0; i < 20; i++) {
    cudaStream_t mine = i % 2 ? first : second, other = i % 2 ? second : first;
    list[i] = {i, -1};
    add<<<1, 1, 0, mine>>>(device_word, 1);
    CHECK(cudaLaunchHostFunc(mine, take_turn, &list[i]));
    CHECK(cudaEventRecord(event, mine));
    CHECK(cudaStreamWaitEvent(other, event, 0));
  }
  CHECK(cudaStreamSynchronize(first));
  CHECK(cudaStreamSynchronize(second));
  int right = 0, value;
  for (const Turn &turn : list) right += turn.at == turn.found;
  CHECK(cudaMemcpy(&value, device_word, sizeof value, cudaMemcpyDeviceToHost));
  printf("%d of 20 in turn, %d additions\n", right, value);

  find_what_was_copied(first, second);

  // A function holds its stream and no other; nobody is in a call of CUDA when it comes.
  CHECK(cudaLaunchHostFunc(first, wait_until_open, nullptr));
  add<<<1, 1, 0, first>>>(device_word, 100);
  CHECK(cudaStreamAddCallback(first, told, nullptr, 0));
  CHECK(cudaLaunchHostFunc(first, mark, &after));
  until(reached);
  printf("first held: %d\n", cudaStreamQuery(first) == cudaErrorNotReady);
  add<<<1, 1, 0, second>>>(device_word, 10);
  CHECK(cudaStreamSynchronize(second));
  CHECK(cudaMemcpyAsync(&value, device_word, sizeof value, cudaMemcpyDeviceToHost, second));
  CHECK(cudaStreamSynchronize(second));
  printf("second goes on: %d\n", value);
  printf("first still held: %d, behind it %d\n", cudaStreamQuery(first) == cudaErrorNotReady,
         after.load());
  open_ = true;
  until(after);
  printf("told of its stream: %d, status %d\n", told_stream == first, told_status.load());
  CHECK(cudaStreamSynchronize(first));

  // The legacy stream waits for blocking ones, and their functions.
  reached = open_ = after = false;
  CHECK(cudaLaunchHostFunc(third, wait_until_open, nullptr));
  CHECK(cudaLaunchHostFunc(cudaStreamLegacy, mark, &after));
  until(reached);
  printf("legacy waits: %d\n", !after);
  open_ = true;
  CHECK(cudaDeviceSynchronize());
  printf("and comes: %d\n", after.load());

  // Not in a function.
  CHECK(cudaLaunchHostFunc(first, calls_cuda, nullptr));
  CHECK(cudaStreamSynchronize(first));
  for (cudaError_t result : inside) printf("inside: %s\n", cudaGetErrorName(result));
  printf("none: %s\n", cudaGetErrorName(cudaLaunchHostFunc(first, nullptr, nullptr)));
  printf("flags: %s\n", cudaGetErrorName(cudaStreamAddCallback(first, told, nullptr, 1)));
  cudaGetLastError();

  // Many, from many streams.
  static std::atomic<int> count;
  cudaStream_t many[40];
  for (cudaStream_t &stream : many) CHECK(cudaStreamCreate(&stream));
  for (int round = 0; round < 10; round++)
    for (cudaStream_t stream : many)
      CHECK(cudaLaunchHostFunc(
          stream, [](void *) { count++; }, nullptr));
  CHECK(cudaDeviceSynchronize());
  printf("%d calls\n", count.load());
  // Destroyed with a function to come.
  for (cudaStream_t stream : many) {
    CHECK(cudaLaunchHostFunc(
        stream, [](void *) { count++; }, nullptr));
    CHECK(cudaStreamDestroy(stream));
  }
  while (count < 440) std::this_thread::sleep_for(std::chrono::microseconds(100));
  printf("%d calls\n", count.load());
  // The reset of the device waits for them.
  cudaStream_t last;
  CHECK(cudaStreamCreate(&last));
  CHECK(cudaLaunchHostFunc(
      last, [](void *) { count++; }, nullptr));
  CHECK(cudaDeviceReset());
  printf("%d calls\n", count.load());
  CHECK(cudaStreamCreate(&last));
  CHECK(cudaLaunchHostFunc(
      last, [](void *) { count++; }, nullptr));
  CHECK(cudaStreamSynchronize(last));
  printf("%d calls\n", count.load());
  return 0;
}
