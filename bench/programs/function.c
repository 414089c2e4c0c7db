// bench-function PREPARE WORK BYTES: a function of DGSF's experiment. It has its session and so
// much memory at once, and says `ready`; prepares for so many milliseconds since its beginning, in
// which it fills its memory; then keeps the GPU busy for so many, of its own time on it. At the end
// it says `right` if the memory is as it was.
#include <time.h>

#include "contents.h"

#define KERNEL_MS 5
// Launched before any is waited for, so that the device always has work.
#define BATCH 4

static const char hold_ptx[] =
    ".version 6.4\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry hold(.param .u64 nanoseconds)\n"
    "{\n"
    "  .reg .u64 %now, %end;\n"
    "  .reg .pred %early;\n"
    "  ld.param.u64 %end, [nanoseconds];\n"
    "  mov.u64 %now, %globaltimer;\n"
    "  add.u64 %end, %end, %now;\n"
    "again:\n"
    "  mov.u64 %now, %globaltimer;\n"
    "  setp.lt.u64 %early, %now, %end;\n"
    "  @%early bra again;\n"
    "  ret;\n"
    "}\n";

static void rest_until(double us) {
  const double left = us - now_us();
  if (left <= 0) return;
  const struct timespec rest = {(time_t)(left / 1e6), (long)((uint64_t)(left * 1e3) % 1000000000)};
  nanosleep(&rest, NULL);
}

int main(int argc, char **argv) {
  const double begun = now_us();
  if (argc != 4) FAIL("usage: bench-function PREPARE WORK BYTES");
  const double prepare = strtod(argv[1], NULL);
  const double work = strtod(argv[2], NULL);
  const size_t bytes = strtoull(argv[3], NULL, 10) / sizeof(uint64_t) * 8;
  const struct session session = session_open(bytes);
  printf("ready\n");
  fflush(stdout);
  CUmodule module;
  CUfunction hold;
  CHECK(cuModuleLoadData(&module, hold_ptx));
  CHECK(cuModuleGetFunction(&hold, module, "hold"));
  contents_fill(session.memory, bytes);
  rest_until(begun + prepare * 1e3);
  uint64_t nanoseconds = KERNEL_MS * UINT64_C(1000000);
  void *parameters[] = {&nanoseconds};
  for (int launched = 1; launched * KERNEL_MS <= work; launched++) {
    CHECK(cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    if (launched % BATCH == 0) CHECK(cuCtxSynchronize());
  }
  CHECK(cuCtxSynchronize());
  contents_check(session.memory, bytes);
  printf("right\n");
  return 0;
}
