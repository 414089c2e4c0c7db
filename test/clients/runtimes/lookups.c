// What cuGetProcAddress finds, by name, version and default stream, as runtimes of all ages ask:
// before cuInit, as they do, or with `started` behind it, when it is known what driver there is.
// Each line: the name, the stream's flag, and the symbol from each version on at which it changes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    "cuGetProcAddress",
    "cuMemAlloc",
    "cuMemAllocAsync",
    "cuMemcpyHtoD",
    "cuMemcpyHtoDAsync",
    "cuMemcpyBatchAsync",
    "cuMemsetD32Async",
    "cuMemPrefetchAsync",
    "cuMemAdvise",
    "cuMemPoolCreate",
    "cuCtxCreate",
    "cuCtxSynchronize",
    "cuCtxGetDevice",
    "cuCtxPushCurrent",
    "cuDevicePrimaryCtxRelease",
    "cuDeviceGetUuid",
    "cuDeviceTotalMem",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture",
    "cuStreamGetCaptureInfo",
    "cuStreamUpdateCaptureDependencies",
    "cuStreamGetCtx",
    "cuStreamGetId",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
    "cuLaunchHostFunc",
    "cuGraphInstantiate",
    "cuGraphAddNode",
    "cuGraphNodeSetParams",
    "cuGraphNodeGetParams",
    "cuGraphAddKernelNode",
    "cuGraphAddDependencies",
    "cuGraphExecUpdate",
    "cuGraphKernelNodeGetParams",
    "cuGraphLaunch",
    "cuIpcOpenMemHandle",
    "cuKernelGetName",
    "cuKernelGetParamCount",
    "cuMemcpyWithAttributesAsync",
    "cuFabricCpyBatchAsync",
    "cuLibraryLoadData",
    "cuLibraryGetModule",
    "cuLinkCreate",
    "cuModuleGetGlobal",
    "cuModuleGetLoadingMode",
    "cuMulticastCreate",
    "cuPointerGetAttribute",
    "cuTexObjectCreate",
    "cuOccupancyMaxActiveClusters",
    "cuNoSuchCall",
    "",
};
static const int versions[] = {1000,  2000,  2030,  3020,  4000,  4010,  5050,  6050,  7000,
                               7050,  8000,  9000,  9020,  10000, 10010, 10020, 11000, 11010,
                               11020, 11030, 11040, 11060, 11070, 11080, 12000, 12010, 12020,
                               12030, 12040, 12050, 12060, 12080, 12090, 13000, 13010, 13020,
                               13030, 13040, 13050, 14000, 99990};

static int (*look_up)(const char *, void **, int, uint64_t);
static int (*look_up_2)(const char *, void **, int, uint64_t, int *);

static void tell(const char *name, uint64_t flags, int version, char *found) {
  void *function = (void *)1, *older = (void *)1;
  int status = -1;
  const int result = look_up_2(name, &function, version, flags, &status);
  const int before = look_up(name, &older, version, flags);
  Dl_info info = {0};
  if (result == 0 && function && dladdr(function, &info) && info.dli_sname)
    strcpy(found, info.dli_sname);
  else
    sprintf(found, "%d(%d)", result, status);
  if (before != result || older != function) strcat(found, "!");
}

int main(int count, char **words) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return 2;
  if (count > 1 && strcmp(words[1], "started") == 0) {
    int (*start)(unsigned), (*tell)(int *), version;
    *(void **)&start = dlsym(driver, "cuInit");
    *(void **)&tell = dlsym(driver, "cuDriverGetVersion");
    if (start(0) || tell(&version)) return 2;
    printf("driver %d\n", version);
  }
  *(void **)&look_up = dlsym(driver, "cuGetProcAddress");
  *(void **)&look_up_2 = dlsym(driver, "cuGetProcAddress_v2");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    for (uint64_t flags = 0; flags < 4; flags++) {
      printf("%s %d:", names[i], (int)flags);
      char last[200] = "", found[200];
      for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
        tell(names[i], flags, versions[v], found);
        if (strcmp(found, last) != 0) printf(" %d %s", versions[v], found);
        strcpy(last, found);
      }
      putchar('\n');
    }
  }
  return 0;
}
