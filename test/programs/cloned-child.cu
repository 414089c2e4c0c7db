// A child that the system call clone() made, of which no library hears, ends by exit() while work
// of its parent is under way, and can use CUDA as little as one of fork().
#include <cuda.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "check_driver.h"

// Until the host says so, which it does when the child has ended.
__global__ void wait_for(const volatile int *go, int *done) {
  while (!*go) {
  }
  *done += 1;
}

// All of it, as the program's own: the child goes on where the parent is.
pid_t clone_process() {
  fflush(stdout);
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

void show(const char *who, pid_t child) {
  int status;
  if (waitpid(child, &status, 0) != child) exit(1);
  if (WIFEXITED(status))
    printf("%s: exit %d\n", who, WEXITSTATUS(status));
  else
    printf("%s: signal %d WRONG\n", who, WTERMSIG(status));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) exit(1);
}

int main() {
  alarm(120);  // who waits for threads that are not there waits for ever
  int *done, *go, total = 0;
  CHECK(cudaMalloc(&done, sizeof *done));
  CHECK(cudaMemset(done, 0, sizeof *done));
  CHECK(cudaHostAlloc(&go, sizeof *go, cudaHostAllocMapped));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUdeviceptr other;
  CUcontext context;
  DRIVER(cuCtxGetCurrent(&context));
  for (int round = 0; round < 3; round++) {
    *go = 0;
    wait_for<<<1, 1, 0, stream>>>(go, done);
    CHECK(cudaGetLastError());
    const pid_t quiet = clone_process();
    if (quiet == 0) exit(7);
    show("a child that only ends", quiet);
    const pid_t curious = clone_process();
    if (curious == 0) {
      alarm(60);
      SHOW_DRIVER(cuInit(0));
      SHOW_DRIVER(cuCtxSynchronize());
      SHOW_DRIVER(cuStreamSynchronize(stream));
      SHOW_DRIVER(cuMemAlloc(&other, 4096));
      SHOW_DRIVER(cuMemcpyDtoH(&total, reinterpret_cast<CUdeviceptr>(done), sizeof total));
      exit(7);
    }
    show("a child that calls", curious);
    // Nor is one of fork() another matter, below a child of clone().
    const pid_t cloned = clone_process();
    if (cloned == 0) {
      const pid_t forked = fork();
      if (forked == 0) exit(7);
      show("a child of a child", forked);
      exit(7);
    }
    show("its parent", cloned);
    *go = 1;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&total, done, sizeof total, cudaMemcpyDeviceToHost));
    printf("%d kernels are done\n", total);
    if (total != round + 1) return 1;
  }
  return 0;
}
