// Which devices a program sees: for each line that it reads, a process with that line as
// CUDA_VISIBLE_DEVICES says the UUIDs of its devices, in order, behind them "|" and those that NVML
// has where there is one. Without lines it says those of a process without the variable.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_driver.h"

#define CALL(library, name, ...) ((__typeof__(&name))dlsym(library, #name))(__VA_ARGS__)

static void say_cuda(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    printf("%s", dlerror());
    return;
  }
  int count = 0;
  const CUresult result = CALL(library, cuInit, 0);
  if (result) {
    const char *text = "?";
    CALL(library, cuGetErrorName, result, &text);
    printf("%s", text);
    return;
  }
  CALL(library, cuDeviceGetCount, &count);
  for (int i = 0; i < count; i++) {
    CUuuid uuid;
    CALL(library, cuDeviceGetUuid_v2, &uuid, i);
    printf("%sGPU-", i ? " " : "");
    for (int byte = 0; byte < 16; byte++)
      printf("%s%02x", byte == 4 || byte == 6 || byte == 8 || byte == 10 ? "-" : "",
             (unsigned char)uuid.bytes[byte]);
  }
}

static void say_nvml(void) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library) return;
  int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
  int (*get_count)(unsigned *) = (int (*)(unsigned *))dlsym(library, "nvmlDeviceGetCount_v2");
  int (*get)(unsigned, void **) =
      (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
  int (*get_uuid)(void *, char *, unsigned) =
      (int (*)(void *, char *, unsigned))dlsym(library, "nvmlDeviceGetUUID");
  unsigned count = 0;
  const int result = init() || get_count(&count);
  printf("|");
  if (result) printf("no NVML");
  for (unsigned i = 0; i < count; i++) {
    void *device;
    char uuid[96] = "?";
    if (!get(i, &device)) get_uuid(device, uuid, sizeof uuid);
    printf("%s%s", i ? " " : "", uuid);
  }
}

static void say(void) {
  say_cuda();
  say_nvml();
  printf("\n");
  fflush(stdout);
}

int main(void) {
  char line[1024];
  int lines = 0;
  unsetenv("CUDA_VISIBLE_DEVICES");
  for (; fgets(line, sizeof line, stdin); lines++) {
    line[strcspn(line, "\n")] = 0;
    const pid_t child = fork();
    if (child == 0) {
      setenv("CUDA_VISIBLE_DEVICES", line, 1);
      say();
      _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    if (status) printf("status %d\n", status);
    fflush(stdout);
  }
  if (!lines) say();
  return 0;
}
