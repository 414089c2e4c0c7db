// Kernels for the figures of the translator: what CUB makes of a sort, a scan and a reduction.
#include <cub/cub.cuh>

void all(void *space, size_t &bytes, unsigned *keys, unsigned *other, float *values, float *out,
         int n) {
  cub::DeviceRadixSort::SortPairs(space, bytes, keys, other, values, out, n);
  cub::DeviceScan::InclusiveSum(space, bytes, values, out, n);
  cub::DeviceReduce::Sum(space, bytes, values, out, n);
}
