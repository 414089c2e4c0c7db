// What a program can ask of its kernels and variables, and launches of them whose arguments are
// right and wrong. Compiled to machine code, and to PTX; what is asked for has the same answers.
// flags: -lcuda
#include <cstring>

#include "check.h"
#include "check_driver.h"

struct Large {
  char bytes[5000];
};
struct alignas(16) Aligned {
  float4 four;
  int one;
};

__device__ int plain[10];
__device__ double initialised[3] = {1.0, 2.0, 3.0};
__device__ unsigned char odd[7];
__constant__ float coefficients[16];
__constant__ int eight = 8;
__managed__ int managed[4] = {5, 6, 7, 8};

extern "C" {
__global__ void nothing() {}
__global__ void several(char a, short b, int c, long d, float *e, double f) {
  e[0] = static_cast<float>(a + b + c + d + f);
}
__global__ void large(Large a, int b) { plain[threadIdx.x] = a.bytes[b] + eight; }
__global__ void larger(Large a, char b, Large c, long d) {
  plain[threadIdx.x] = static_cast<int>(a.bytes[b] + c.bytes[1] + d);
}
__global__ void aligned(char a, Aligned b, char c) {
  plain[threadIdx.x] = a + b.one + c + odd[threadIdx.x];
}
__global__ void __launch_bounds__(128) bounded(float *out) {
  __shared__ float tile[300];
  tile[threadIdx.x] = coefficients[threadIdx.x & 15] + managed[threadIdx.x & 3];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 1] + static_cast<float>(initialised[threadIdx.x % 3]);
}
__global__ void dynamic(int *out) {
  extern __shared__ int room[];
  room[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = room[threadIdx.x ^ 1];
}
__global__ void __cluster_dims__(2, 1, 1) clustered(int *out) { out[blockIdx.x] = 1; }
}

static int attribute(CUfunction function, CUfunction_attribute which) {
  int value = -1;
  DRIVER(cuFuncGetAttribute(&value, which, function));
  return value;
}

template <class Kernel>
static void tell_kernel(Kernel *kernel) {
  cudaFunction_t found;
  CHECK(cudaGetFuncBySymbol(&found, reinterpret_cast<const void *>(kernel)));
  const CUfunction function = found;
  const char *name = "";
  DRIVER(cuFuncGetName(&name, function));
  printf("kernel %s: at most %d threads, %d bytes shared", name,
         attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
         attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  printf(", clusters of %d", attribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH));
  size_t offset, size;
  for (size_t i = 0; cuFuncGetParamInfo(function, i, &offset, &size) == CUDA_SUCCESS; i++)
    printf(", %zu at %zu", size, offset);
  const int registers = attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS);
  printf("; registers and local memory make sense: %d\n",
         registers > 0 && registers < 256 &&
             attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) < 1024);
}

// Says the size of a variable, whether its address is aligned, and the sum of its bytes.
template <class Variable>
static void tell_variable(const char *name, const Variable &variable, size_t align) {
  void *address = nullptr;
  size_t size = 0;
  CHECK(cudaGetSymbolAddress(&address, variable));
  CHECK(cudaGetSymbolSize(&size, variable));
  unsigned char bytes[128] = {};
  CHECK(cudaMemcpyFromSymbol(bytes, variable, size));
  unsigned sum = 0;
  for (size_t i = 0; i < size; i++) sum = sum * 31 + bytes[i];
  printf("variable %s: %zu bytes, aligned: %d, %x\n", name, size,
         reinterpret_cast<uintptr_t>(address) % align == 0, sum);
}

int main() {
  CHECK(cudaFree(nullptr));
  tell_kernel(nothing);
  tell_kernel(several);
  tell_kernel(large);
  tell_kernel(larger);
  tell_kernel(aligned);
  tell_kernel(bounded);
  tell_kernel(dynamic);
  tell_kernel(clustered);
  tell_variable("plain", plain, 4);
  tell_variable("initialised", initialised, 8);
  tell_variable("odd", odd, 1);
  tell_variable("coefficients", coefficients, 4);
  tell_variable("eight", eight, 4);
  tell_variable("managed", managed, 4);
  managed[1] += 10;
  printf("managed memory is the host's, too: %d\n", managed[1]);
  const float of_host[16] = {3, 4};
  CHECK(cudaMemcpyToSymbol(coefficients, of_host, sizeof of_host));
  tell_variable("coefficients", coefficients, 4);

  int *out;
  CHECK(cudaMalloc(&out, 1024));
  CHECK(cudaMemset(out, 0, 1024));
  auto *const floats = reinterpret_cast<float *>(out);
  cudaFunction_t function;
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(bounded)));
  void *arguments[] = {&out};
  SHOW_DRIVER(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  SHOW_DRIVER(cuLaunchKernel(function, 1, 1, 1, 129, 1, 1, 0, nullptr, arguments, nullptr));
  SHOW_DRIVER(cuLaunchKernel(function, 0, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  SHOW_DRIVER(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 1 << 20, nullptr, arguments, nullptr));
  SHOW_DRIVER(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr));
  several<<<700, 1024>>>(1, 2, 3, 4, floats, 5.0);
  SHOW(cudaGetLastError());
  dynamic<<<1, 32, 128>>>(out);
  SHOW(cudaGetLastError());
  clustered<<<3, 32>>>(out);
  SHOW(cudaGetLastError());
  clustered<<<4, 32>>>(out);
  SHOW(cudaGetLastError());
  // A failure of the kernels would show here.
  SHOW(cudaDeviceSynchronize());

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  large<<<1, 10, 0, stream>>>({}, 0);
  nothing<<<1, 1, 0, stream>>>();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(exec, stream));
  SHOW(cudaStreamSynchronize(stream));

  float written[128];
  int stored[10];
  CHECK(cudaMemcpy(written, out, sizeof written, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(stored, plain, sizeof stored));
  int count = 0;
  for (float each : written) count += each != 0;
  for (int each : stored) count += each != 0;
  printf("kernels do something: %d\n", count != 0);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(out));
  return 0;
}
