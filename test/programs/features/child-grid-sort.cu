// A quicksort whose kernels launch kernels for both halves, until a block does the rest.
// flags: -rdc=true -lcudadevrt
#include <algorithm>
#include <vector>

#include "../check.h"

constexpr int kSmall = 64;  // sorted by one block
constexpr int kDeep = 20;   // ... as is what is deeper than this

// Each thread finds the places of some elements by counting.
__global__ void sort_small(unsigned *data, int count) {
  extern __shared__ unsigned place[];
  for (int i = threadIdx.x; i < count; i += blockDim.x) place[i] = data[i];
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    int before = 0;
    for (int j = 0; j < count; j++)
      before += place[j] < place[i] || (place[j] == place[i] && j < i);
    data[before] = place[i];
  }
}

// What is left when the depth is used up: slow, and rare.
__global__ void sort_rest(unsigned *data, int count) {
  for (int i = 1; i < count; i++) {
    unsigned value = data[i];
    int at = i;
    for (; at > 0 && data[at - 1] > value; at--) data[at] = data[at - 1];
    data[at] = value;
  }
}

__global__ void quicksort(unsigned *data, int count, int depth, int *failed) {
  if (count <= kSmall) {
    sort_small<<<1, 32, count * sizeof *data>>>(data, count);
  } else if (depth == kDeep) {
    sort_rest<<<1, 1>>>(data, count);
  } else {
    unsigned a = data[0], b = data[count / 2], c = data[count - 1];
    unsigned pivot = max(min(a, b), min(max(a, b), c));
    int left = 0, right = count - 1;
    while (left <= right) {
      while (data[left] < pivot) left++;
      while (data[right] > pivot) right--;
      if (left > right) break;
      unsigned held = data[left];
      data[left++] = data[right];
      data[right--] = held;
    }
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (right > 0) quicksort<<<1, 1, 0, streams[0]>>>(data, right + 1, depth + 1, failed);
    if (left < count - 1)
      quicksort<<<1, 1, 0, streams[1]>>>(data + left, count - left, depth + 1, failed);
    for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
  }
  if (cudaGetLastError()) atomicAdd(failed, 1);
}

int main() {
  const int count = 20000;
  std::vector<unsigned> host(count), sorted(count);
  unsigned state = 12345;
  for (unsigned &value : host) value = state = state * 1664525 + 1013904223;
  unsigned *data;
  int *failed, failures;
  CHECK(cudaMalloc(&data, count * sizeof *data));
  CHECK(cudaMalloc(&failed, sizeof *failed));
  CHECK(cudaMemset(failed, 0, sizeof *failed));
  CHECK(cudaMemcpy(data, host.data(), count * sizeof *data, cudaMemcpyHostToDevice));
  quicksort<<<1, 1>>>(data, count, 0, failed);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(sorted.data(), data, count * sizeof *data, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&failures, failed, sizeof failures, cudaMemcpyDeviceToHost));
  std::sort(host.begin(), host.end());
  printf("%s, %d launches failed\n", sorted == host ? "sorted" : "NOT SORTED", failures);
  CHECK(cudaFree(data));
  CHECK(cudaFree(failed));
  return sorted != host || failures;
}
