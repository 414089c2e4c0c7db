// Variables with initialisers: constants, tables of pointers to variables and functions,
// structures, managed memory.
#include <cstdint>

#include "../check.h"

struct Entry {
  const char *name;
  int (*function)(int);
  const double *number;
  short small;
};

__device__ int twice(int x) { return 2 * x; }
__device__ int square(int x) { return x * x; }
__constant__ double numbers[3] = {0.5, -1.25, 1e300};
__device__ int table[2][3] = {{1, -2, 3}, {40, 50, 60}};
__device__ int *const middle = &table[1][1];
__device__ const Entry entries[2] = {{"twice", twice, &numbers[1], -7},
                                     {"square", square, numbers + 2, 9}};
__device__ uint8_t bytes[6] = {1, 2, 255};
__managed__ long long shared_count = 40;
__constant__ int (*chosen)(int) = square;

__global__ void read(long long *out) {
  int i = 0;
  for (int e = 0; e < 2; e++) {
    const Entry &entry = entries[e];
    out[i++] = entry.name[0] * 1000 + entry.name[1];
    out[i++] = entry.function(11);
    out[i++] = *entry.number == numbers[e + 1];
    out[i++] = entry.small;
  }
  out[i++] = *middle;
  out[i++] = table[0][1];
  out[i++] = bytes[2] + bytes[3];
  out[i++] = chosen(9);
  shared_count += 2;
}

int main() {
  long long *device, host[12];
  CHECK(cudaMalloc(&device, sizeof host));
  const double changed[3] = {0.5, 3.0, 1e300};
  CHECK(cudaMemcpyToSymbol(numbers, changed, sizeof changed));
  read<<<1, 1>>>(device);
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  const long long expected[12] = {
      't' * 1000 + 'w', 22, 1, -7, 's' * 1000 + 'q', 121, 1, 9, 50, -2, 255, 81};
  for (int i = 0; i < 12; i++)
    if (host[i] != expected[i]) {
      fprintf(stderr, "result %d is %lld instead of %lld\n", i, host[i], expected[i]);
      return 1;
    }
  if (shared_count != 42) {
    fprintf(stderr, "the managed variable is %lld\n", shared_count);
    return 1;
  }
  int row[3];
  CHECK(cudaMemcpyFromSymbol(row, table, sizeof row, sizeof row));
  if (row[0] != 40 || row[2] != 60) return fprintf(stderr, "the table is %d\n", row[0]), 1;
  printf("12 values of initialised variables\n");
  return 0;
}
