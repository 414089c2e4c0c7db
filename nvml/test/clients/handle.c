// A program that looks at its device by NVML before it has a session: what becomes of the handle.
// Says the UUID of the device that it was shown, waits for a line, begins a session, and says the
// UUID of the session's device, how many NVML shows, and what the old handle says: a result, its
// UUID, a result and the bytes of memory. Then it waits for another line.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_driver.h"
#include "nvml_api.h"

#define CALL(library, name, ...) ((__typeof__(&name))dlsym(library, #name))(__VA_ARGS__)

static void need(int result, const char *what) {
  if (!result) return;
  printf("%s: %d\n", what, result);
  exit(1);
}

static void wait_for_line(void) {
  char line[16];
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) exit(0);
}

int main(void) {
  void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW), *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (!nvml || !cuda) {
    printf("%s\n", dlerror());
    return 1;
  }
  nvmlDevice_t handle, found;
  char text[96];
  need(CALL(nvml, nvmlInit_v2, ), "nvmlInit");
  need(CALL(nvml, nvmlDeviceGetHandleByIndex_v2, 0, &handle), "nvmlDeviceGetHandleByIndex");
  need(CALL(nvml, nvmlDeviceGetUUID, handle, text, sizeof text), "nvmlDeviceGetUUID");
  printf("%s\n", text);
  wait_for_line();

  unsigned count = 0;
  need((int)CALL(cuda, cuInit, 0), "cuInit");
  need(CALL(nvml, nvmlDeviceGetCount_v2, &count), "nvmlDeviceGetCount");
  need(CALL(nvml, nvmlDeviceGetHandleByIndex_v2, 0, &found), "the session's device");
  need(CALL(nvml, nvmlDeviceGetUUID, found, text, sizeof text), "its UUID");
  printf("%s %u", text, count);
  int result = CALL(nvml, nvmlDeviceGetUUID, handle, text, sizeof text);
  printf(" %d %s", result, result ? "-" : text);
  nvmlMemory_t memory = {0};
  result = CALL(nvml, nvmlDeviceGetMemoryInfo, handle, &memory);
  printf(" %d %llu\n", result, (unsigned long long)memory.total);
  wait_for_line();
  return 0;
}
