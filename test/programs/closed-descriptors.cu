// A program that was started with 0, 1 or 2 closed gets right results, and these stay its own.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

constexpr int kCount = 1 << 16;
constexpr char kLine[] = "a line that nobody may find in device memory or on the wire\n";

__global__ void square(const int *in, int *out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) out[i] = in[i] * in[i];
}

__global__ void said(int number) { printf("kernel %d\n", number); }

// Whatever is closed is written to all the same, as programs do that do not know.
void print() {
  for (int i = 0; i < 100; i++) {
    printf("%s", kLine);
    fprintf(stderr, "%s", kLine);
  }
  fflush(stdout);
}

void CUDART_CB in_stream(void *calls) {
  ++*static_cast<int *>(calls);
  print();
}

// With the descriptors of `closed`, bit by bit, closed. What the result is says the exit status.
int run(int closed) {
  static int in[kCount], out[kCount];
  int *device_in, *device_out, calls = 0;
  for (int i = 0; i < kCount; i++) in[i] = i % 30000;
  print();
  CHECK(cudaMalloc(&device_in, sizeof in));
  CHECK(cudaMalloc(&device_out, sizeof out));
  print();
  CHECK(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice));
  CHECK(cudaLaunchHostFunc(nullptr, in_stream, &calls));
  square<<<kCount / 256, 256>>>(device_in, device_out);
  said<<<1, 1>>>(closed);
  print();
  CHECK(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());
  print();
  int *managed;
  CHECK(cudaMallocManaged(&managed, sizeof in));
  memcpy(managed, in, sizeof in);
  print();
  square<<<kCount / 256, 256>>>(managed, managed);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; i++)
    if (out[i] != in[i] * in[i] || managed[i] != out[i]) return 2;
  if (calls != 1) return 3;
  // Nobody has taken them.
  for (int fd = 0; fd < 3; fd++)
    if (closed & 1 << fd && (fcntl(fd, F_GETFD) != -1 || errno != EBADF)) return 4 + fd;
  return 0;
}

// Runs this program again so. All that it wrote to `*output` where 1 is open.
int run_again(const char *self, int closed, char *output, size_t size) {
  int ends[2];
  if (pipe(ends)) return -1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    for (int fd = 0; fd < 3; fd++)
      if (closed & 1 << fd) close(fd);
    char number[4];
    snprintf(number, sizeof number, "%d", closed);
    execl(self, self, number, static_cast<char *>(nullptr));
    _exit(126);
  }
  close(ends[1]);
  size_t have = 0;
  for (ssize_t got; have < size - 1 && (got = read(ends[0], output + have, size - 1 - have)) > 0;)
    have += static_cast<size_t>(got);
  output[have] = 0;
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

int main(int count, char **arguments) {
  if (count > 1) return run(atoi(arguments[1]));
  static char output[1 << 20];
  int wrong = 0;
  // stderr of the program itself is what tests read: it goes where nobody does.
  const int quiet = open("/dev/null", O_WRONLY), err = dup(2);
  for (int closed = 0; closed < 8; closed++) {
    dup2(quiet, 2);
    const int status = run_again("/proc/self/exe", closed, output, sizeof output);
    dup2(err, 2);
    int lines = 0;
    for (const char *at = output; (at = strstr(at, kLine)); at++) lines++;
    char kernel[32];
    snprintf(kernel, sizeof kernel, "kernel %d\n", closed);
    const bool heard = closed & 2 ? !*output : lines == 600 && strstr(output, kernel);
    printf("%s%s%s closed: %s\n", closed & 1 ? "0" : "-", closed & 2 ? "1" : "-",
           closed & 4 ? "2" : "-", status || !heard ? "WRONG" : "right");
    if (status || !heard) {
      printf("status %d, signal %d, %d lines\n", WEXITSTATUS(status), WTERMSIG(status), lines);
      wrong = 1;
    }
  }
  return wrong;
}
