// Two processes, one memory: a second copy of this program gets handles of memory and an event.
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>

#include "../check.h"

struct Handles {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t ready;
};

__global__ void multiply(int *values, int factor, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

constexpr int kCount = 3000;

int second(int input, int output) {
  Handles handles;
  if (read(input, &handles, sizeof handles) != sizeof handles) return 1;
  int *values;
  cudaEvent_t ready;
  CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&values), handles.memory,
                             cudaIpcMemLazyEnablePeerAccess));
  CHECK(cudaIpcOpenEventHandle(&ready, handles.ready));
  CHECK(cudaStreamWaitEvent(0, ready, 0));
  multiply<<<(kCount + 127) / 128, 128>>>(values, 7, kCount);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaIpcCloseMemHandle(values));
  return write(output, "x", 1) == 1 ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc == 3) return second(atoi(argv[1]), atoi(argv[2]));
  int there[2], back[2];
  if (pipe(there) || pipe(back)) return 1;
  pid_t child = fork();  // before the first call of CUDA
  if (child == 0) {
    close(there[1]);
    close(back[0]);
    char input[16], output[16];
    snprintf(input, sizeof input, "%d", there[0]);
    snprintf(output, sizeof output, "%d", back[1]);
    execl("/proc/self/exe", argv[0], input, output, static_cast<char *>(nullptr));
    _exit(127);
  }
  close(there[0]);
  close(back[1]);
  int *values, host[kCount];
  Handles handles;
  cudaEvent_t ready;
  CHECK(cudaMalloc(&values, sizeof host));
  CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming | cudaEventInterprocess));
  CHECK(cudaIpcGetMemHandle(&handles.memory, values));
  CHECK(cudaIpcGetEventHandle(&handles.ready, ready));
  for (int i = 0; i < kCount; i++) host[i] = i;
  CHECK(cudaMemcpyAsync(values, host, sizeof host, cudaMemcpyHostToDevice, 0));
  multiply<<<(kCount + 127) / 128, 128>>>(values, 3, kCount);
  CHECK(cudaEventRecord(ready, 0));
  if (write(there[1], &handles, sizeof handles) != sizeof handles) return 1;
  char done = 0;
  if (read(back[0], &done, 1) != 1) done = 0;
  int status = 0;
  waitpid(child, &status, 0);
  if (done != 'x' || status != 0) {
    fprintf(stderr, "the second process failed\n");
    return 1;
  }
  CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; i++)
    if (host[i] != i * 21) {
      fprintf(stderr, "element %d is %d\n", i, host[i]);
      return 1;
    }
  printf("both processes multiplied the same memory\n");
  CHECK(cudaFree(values));
  return 0;
}
