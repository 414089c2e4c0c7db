// How much a fuzz target was given, which libFuzzer counts in runs only: said when it ends.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t runs, bytes;

static void say(void) {
  fprintf(stderr, "%llu bytes in %llu runs\n", (unsigned long long)bytes, (unsigned long long)runs);
}

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (runs++ == 0) atexit(say);
  bytes += size;
  return __real_LLVMFuzzerTestOneInput(data, size);
}
