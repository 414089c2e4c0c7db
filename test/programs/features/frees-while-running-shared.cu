// Memory of another process given back while a kernel reads it: the kernel reads on to its end.
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>

#include "../check.h"

constexpr int rounds = 1000000;
constexpr size_t size = 3 << 20;

// Long enough for the host to come to the end of the memory.
__global__ void count_sevens(const volatile unsigned char *byte) {
  unsigned count = 0;
  for (int i = 0; i < rounds; i++) count += *byte == 7;
  printf("%s\n", count == rounds ? "read to the end" : "WRONG");
}

int second(int input) {
  cudaIpcMemHandle_t handle;
  if (read(input, &handle, sizeof handle) != sizeof handle) return 1;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 2; i++) {  // the second time it is opened anew
    unsigned char *bytes, *next;
    CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&bytes), handle,
                               cudaIpcMemLazyEnablePeerAccess));
    count_sevens<<<1, 1, 0, stream>>>(bytes + size - 1);
    CHECK(cudaIpcCloseMemHandle(bytes));
    CHECK(cudaMalloc(&next, size));
    CHECK(cudaMemset(next, 8, size));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(next));
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2) return second(atoi(argv[1]));
  int there[2];
  if (pipe(there)) return 1;
  pid_t child = fork();  // before the first call of CUDA
  if (child == 0) {
    close(there[1]);
    char input[16];
    snprintf(input, sizeof input, "%d", there[0]);
    execl("/proc/self/exe", argv[0], input, static_cast<char *>(nullptr));
    _exit(127);
  }
  close(there[0]);
  unsigned char *bytes;
  cudaIpcMemHandle_t handle;
  CHECK(cudaMalloc(&bytes, size));
  CHECK(cudaMemset(bytes, 7, size));
  CHECK(cudaIpcGetMemHandle(&handle, bytes));
  CHECK(cudaDeviceSynchronize());
  if (write(there[1], &handle, sizeof handle) != sizeof handle) return 1;
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(cudaFree(bytes));
  printf("the second process: %s\n", status == 0 ? "well" : "WRONG");
  return status != 0;
}
