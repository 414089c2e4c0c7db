// Addresses, mappings and the last byte.
#include <stdio.h>
#include <stdlib.h>

#include "probe.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)

static CUmemAllocationProp pinned_on(CUdevice device) {
  return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

// A tebibyte at several bases: whether the driver takes the hint.
void probe_reserve(char **rest) {
  (void)rest;
  const CUdevice device = probe_context();
  const CUmemAllocationProp prop = pinned_on(device);
  size_t granularity = 0;
  CHECK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  say_number("granularity KiB, least", (double)(granularity >> 10));
  CHECK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  say_number("granularity KiB, recommended", (double)(granularity >> 10));
  static const CUdeviceptr bases[] = {
      0,
      TIB,
      4 * TIB,
      (CUdeviceptr)16 * TIB,
      32 * TIB,
      (CUdeviceptr)64 * TIB,
      (CUdeviceptr)96 * TIB,
      (CUdeviceptr)112 * TIB,
  };
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    char name[64], got[64];
    if (bases[i])
      snprintf(name, sizeof name, "1 TiB at %llu TiB", bases[i] / TIB);
    else
      snprintf(name, sizeof name, "1 TiB anywhere");
    CUdeviceptr at = 0;
    const CUresult result = driver.cuMemAddressReserve(&at, TIB, 0, bases[i], 0);
    if (result) {
      say_result(name, result);
      continue;
    }
    if (bases[i] && at == bases[i])
      snprintf(got, sizeof got, "there");
    else
      snprintf(got, sizeof got, bases[i] ? "elsewhere: 0x%llx" : "0x%llx", at);
    // Where it lies without a hint differs from run to run; that it is there does not.
    say_text(name, got);
    driver.cuMemAddressFree(at, TIB);
  }
}

struct mapping {
  CUmemGenericAllocationHandle memory;
  CUdeviceptr at;
  double took[4];  // create, map, set access, unmap
};

static void mapped(struct mapping *m, CUdevice device, size_t size, bool unmap) {
  const CUmemAllocationProp prop = pinned_on(device);
  const CUmemAccessDesc access = {.location = prop.location,
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  double begun = now_us();
  CHECK(cuMemCreate(&m->memory, size, &prop, 0));
  m->took[0] = now_us() - begun;
  begun = now_us();
  CHECK(cuMemMap(m->at, size, 0, m->memory, 0));
  m->took[1] = now_us() - begun;
  begun = now_us();
  CHECK(cuMemSetAccess(m->at, size, &access, 1));
  m->took[2] = now_us() - begun;
  if (!unmap) return;
  begun = now_us();
  CHECK(cuMemUnmap(m->at, size));
  m->took[3] = now_us() - begun;
  CHECK(cuMemRelease(m->memory));
}

static int by_value(const void *a, const void *b) {
  const double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

void probe_mapping(char **rest) {
  (void)rest;
  const CUdevice device = probe_context();
  static const size_t sizes[] = {2 * MIB, 64 * MIB, GIB};
  static const char *const calls[] = {"create", "map", "set access", "unmap"};
  enum { kRuns = 9 };
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    struct mapping m = {0};
    CHECK(cuMemAddressReserve(&m.at, sizes[s], 0, 0, 0));
    double all[4][kRuns];
    for (int run = 0; run < kRuns; run++) {
      mapped(&m, device, sizes[s], true);
      for (int call = 0; call < 4; call++) all[call][run] = m.took[call];
    }
    for (int call = 0; call < 4; call++) {
      qsort(all[call], kRuns, sizeof **all, by_value);
      char name[64];
      snprintf(name, sizeof name, "%s %zu MiB, us", calls[call], sizes[s] / MIB);
      say_number(name, all[call][kRuns / 2]);
    }
    CHECK(cuMemAddressFree(m.at, sizes[s]));
  }
  // Memory that the kernel has nothing to do with.
  struct mapping m = {0};
  CHECK(cuMemAddressReserve(&m.at, 2 * MIB, 0, 0, 0));
  mapped(&m, device, 2 * MIB, false);
  const CUfunction counts = probe_function("counts");
  const unsigned turns = turns_for_us(counts, 200e3);
  launch(counts, NULL, turns);
  const double begun = now_us();
  CHECK(cuMemUnmap(m.at, 2 * MIB));
  const double took = now_us() - begun;
  const CUresult still = driver.cuStreamQuery(NULL);
  say_number("unmap beside a kernel of 200 ms, us", took);
  say_text("unmap waits for the device", still == CUDA_ERROR_NOT_READY ? "no" : "yes");
  CHECK(cuCtxSynchronize());
}

// All that the device gives, then kernels that need a large stack: code and local memory that
// nobody has counted.
void probe_exhaust(char **rest) {
  (void)rest;
  probe_context();
  const CUfunction nothing = probe_function("nothing");
  launch(nothing, NULL, 0);
  CHECK(cuCtxSynchronize());
  size_t free_bytes = 0, total = 0, taken = 0;
  CHECK(cuMemGetInfo_v2(&free_bytes, &total));
  say_number("free MiB, before", (double)free_bytes / MIB);
  CUdeviceptr first = 0;
  CUresult last = CUDA_SUCCESS;
  for (size_t piece = total / 64 / MIB * MIB; piece >= MIB; piece = piece / 2 / MIB * MIB) {
    for (;;) {
      CUdeviceptr at = 0;
      last = driver.cuMemAlloc_v2(&at, piece);
      if (last) break;
      if (!first) first = at;
      taken += piece;
    }
    if (last != CUDA_ERROR_OUT_OF_MEMORY) break;
  }
  say_number("taken MiB", (double)(taken / MIB));
  say_result("then", last);
  launch(nothing, NULL, 0);
  say_result("a small kernel", driver.cuCtxSynchronize());
  CUmodule module;
  CUfunction deep;
  CUresult result = driver.cuModuleLoadData(&module, probe_ptx);
  say_result("a module more", result);
  if (result) return;
  result = driver.cuModuleGetFunction(&deep, module, "deep");
  unsigned turns = 1;
  void *parameters[] = {&turns};
  if (!result) result = driver.cuLaunchKernel(deep, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
  if (!result) result = driver.cuCtxSynchronize();
  say_result("a kernel with 32 KiB of stack", result);
  char byte;
  say_result("a copy behind it", driver.cuMemcpyDtoH_v2(&byte, first, 1));
  if (first) driver.cuMemFree_v2(first);
  launch(nothing, NULL, 0);
  say_result("a small kernel, once something is freed", driver.cuCtxSynchronize());
}
