// Whatever a guest sends (fuzz_session.h). libFuzzer changes inputs by whole frames (frames.h), so
// that what it tries gets past the decoder; one in ten it changes as bytes.
#include <cstdint>

#include "frames.h"
#include "fuzz_session.h"

// A session's last thread may still be on its way out when an input is done, which looks like a
// leak. The tests look for leaks.
extern "C" const char *__asan_default_options() { return "detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  serve_input(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned seed) {
  if (seed % 10 == 0) return LLVMFuzzerMutate(data, size, max_size);
  return mutate_frames(data, size, max_size, seed, LLVMFuzzerMutate);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_size,
                                            const uint8_t *other, size_t other_size, uint8_t *out,
                                            size_t max_size, unsigned seed) {
  return cross_frames(one, one_size, other, other_size, out, max_size, seed);
}
