// A kernel that touches what it may not gets the error of its kind, which stays; the process goes
// on.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

__global__ void store(int *at) { *at = 1; }
__global__ void load(const int *at, int *out) { *out = *at; }
__global__ void gather(const int *from, int *out, long step) {
  out[threadIdx.x] = from[threadIdx.x * step];
}

// What comes of one launch, in a process of its own.
static void expect(const char *what, cudaError_t wanted, void (*launch)(int *, int *)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int *data, *out;
    cudaMalloc(&data, 1024 * sizeof(int));
    cudaMalloc(&out, 1024 * sizeof(int));
    launch(data, out);
    const cudaError_t first = cudaDeviceSynchronize(), again = cudaDeviceSynchronize();
    void *more = nullptr;
    const bool stays = wanted == cudaSuccess || (again == first && cudaMalloc(&more, 4) == first);
    if (first != wanted) fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(first));
    _exit(first == wanted && stays ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fprintf(stderr, "%s did not end as it should\n", what);
    exit(1);
  }
  // No call of CUDA's here: it could not be used in the processes to come.
  printf("%s: error %d\n", what, static_cast<int>(wanted));
}

int main() {
  expect("within an allocation", cudaSuccess,
         [](int *data, int *) { store<<<1, 1>>>(data + 1023); });
  expect("null", cudaErrorIllegalAddress, [](int *, int *) { store<<<1, 1>>>(nullptr); });
  expect("read of null", cudaErrorIllegalAddress,
         [](int *, int *out) { load<<<1, 32>>>(nullptr, out); });
  expect("far behind the end", cudaErrorIllegalAddress,
         [](int *data, int *) { store<<<1, 1>>>(data + (int64_t{1} << 44)); });
  expect("one lane of a warp", cudaErrorIllegalAddress,
         [](int *data, int *out) { gather<<<1, 32>>>(data, out, int64_t{1} << 38); });
  expect("not a multiple of the size", cudaErrorMisalignedAddress, [](int *data, int *) {
    store<<<1, 1>>>(reinterpret_cast<int *>(reinterpret_cast<char *>(data) + 2));
  });
  return 0;
}
