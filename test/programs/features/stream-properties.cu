// What streams are: priorities, flags, numbers, attributes; the two default streams.
#include <cstdio>

#include "../check.h"

int main() {
  int least, greatest, priority;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  printf("greater priorities are smaller numbers: %d\n", greatest <= least);
  cudaStream_t high, low, plain;
  CHECK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
  CHECK(cudaStreamCreateWithPriority(&low, cudaStreamDefault, least + 1000));  // is clamped
  CHECK(cudaStreamCreate(&plain));
  CHECK(cudaStreamGetPriority(high, &priority));
  bool kept = priority == greatest;
  CHECK(cudaStreamGetPriority(low, &priority));
  printf("priorities are kept %d and clamped %d\n", kept, priority == least);
  unsigned flags;
  CHECK(cudaStreamGetFlags(high, &flags));
  printf("flags %u", flags);
  CHECK(cudaStreamGetFlags(low, &flags));
  printf(" and %u\n", flags);
  unsigned long long first, second, legacy, per_thread;
  CHECK(cudaStreamGetId(high, &first));
  CHECK(cudaStreamGetId(low, &second));
  CHECK(cudaStreamGetId(cudaStreamLegacy, &legacy));
  CHECK(cudaStreamGetId(cudaStreamPerThread, &per_thread));
  printf("numbers differ: %d\n", first != second && first != legacy && legacy != per_thread);

  cudaStreamAttrValue value = {};
  value.syncPolicy = cudaSyncPolicyYield;
  CHECK(cudaStreamSetAttribute(high, cudaStreamAttributeSynchronizationPolicy, &value));
  CHECK(cudaStreamCopyAttributes(plain, high));
  value = {};
  CHECK(cudaStreamGetAttribute(plain, cudaStreamAttributeSynchronizationPolicy, &value));
  printf("an attribute that was copied: %d\n", value.syncPolicy == cudaSyncPolicyYield);
  int device = -1;
  CHECK(cudaStreamGetDevice(plain, &device));
  printf("device %d\n", device);
  CHECK(cudaStreamDestroy(high));
  CHECK(cudaStreamDestroy(low));
  CHECK(cudaStreamDestroy(plain));
  return 0;
}
