// Answers to arguments that no page speaks of, the driver's private table of multiprocessors, and
// addresses that two processes may or may not share.
#include <stdio.h>
#include <string.h>

#include "probe.h"

void probe_answers(char **rest) {
  (void)rest;
  probe_context();
  void *memory = &memory;
  say_result("cuMemHostAlloc of 0 bytes", driver.cuMemHostAlloc(&memory, 0, 0));
  say_text("its pointer is then", memory == &memory ? "as before" : memory ? "one" : "null");
  if (memory && memory != &memory) say_result("cuMemFreeHost of it", driver.cuMemFreeHost(memory));
  size_t free_bytes = 0, total = 0;
  say_result("cuMemGetInfo without the total", driver.cuMemGetInfo_v2(&free_bytes, NULL));
  say_text("what is free is told then", free_bytes ? "yes" : "no");
  say_result("cuMemGetInfo without what is free", driver.cuMemGetInfo_v2(NULL, &total));
  say_text("the total is told then", total ? "yes" : "no");
  say_result("cuMemGetInfo without either", driver.cuMemGetInfo_v2(NULL, NULL));
  say_result("the context behind them", driver.cuCtxSynchronize());
}

// The table that cuBLASLt plans products of half precision with. Its first word is its size in
// bytes; slot 4 has been seen to hand out a byte for each pair of multiprocessors.
void probe_table(char **rest) {
  (void)rest;
  const CUdevice device = probe_context();
  static const CUuuid id = {.bytes = {0x17, 0x34, (char)0xdc, 0x26, (char)0x80, 0x0d, 0x47, 0x45,
                                      (char)0x87, 0x26, (char)0xc0, (char)0xf1, (char)0xe7,
                                      (char)0xdd, (char)0x8b, (char)0xca}};
  const void *table = NULL;
  const CUresult found = driver.cuGetExportTable(&table, &id);
  say_result("table 1734dc26", found);
  if (found || !table) return;
  size_t bytes;
  memcpy(&bytes, table, sizeof bytes);
  say_number("its size, bytes", (double)bytes);
  enum { kSlot = 4, kMostSlots = 64 };
  const size_t slots = bytes / sizeof(void *);
  if (slots <= kSlot || slots > kMostSlots) return;
  char used[4 * kMostSlots] = "";
  void *slot[kMostSlots];
  memcpy(slot, table, slots * sizeof *slot);
  for (size_t i = 1; i < slots; i++)
    if (slot[i]) snprintf(used + strlen(used), 5, "%s%zu", *used ? " " : "", i);
  say_text("slots that are not null", used);
  if (!slot[kSlot]) return;
  CUresult (*groups)(const uint8_t **, void **);
  memcpy(&groups, &slot[kSlot], sizeof groups);
  const uint8_t *of = NULL;
  void *more = NULL;
  say_result("slot 4", groups(&of, &more));
  say_text("slot 4 hands out", of && more ? "both" : of ? "bytes" : more ? "the other" : "nothing");
  int multiprocessors = 0;
  CHECK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  if (!of) return;
  char text[2 * 512 + 1] = "";
  for (int i = 0; i < multiprocessors / 2 && i < 512; i++)
    snprintf(text + strlen(text), 3, "%02x", of[i]);
  say_text("its bytes, one per pair of multiprocessors", text);
}

static void say_address(const char *name, uint64_t address) {
  char text[24];
  snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
  say_text(name, text);
}

static const char variables_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .global .align 8 .b8 variable[4096];\n"
    ".visible .const .align 8 .b8 constant[64];\n"
    ".visible .entry reads(.param .u64 out)\n"
    "{\n"
    "  .reg .u64 %a<3>;\n"
    "  .reg .u32 %r<2>;\n"
    "  ld.param.u64 %a1, [out];\n"
    "  ld.global.u32 %r1, [variable];\n"
    "  st.global.u32 [%a1], %r1;\n"
    "  ret;\n"
    "}\n";

// Where things are that a process gets by the same calls in the same order.
void probe_addresses(char **rest) {
  (void)rest;
  probe_context();
  CUdeviceptr memory, at;
  size_t size;
  CUmodule module;
  CUfunction function;
  CUlibrary library;
  CUkernel kernel;
  CUstream stream;
  CHECK(cuMemAlloc_v2(&memory, 1 << 20));
  for (int i = 0; i < 2; i++) {
    char name[40];
    CHECK(cuModuleLoadData(&module, variables_ptx));
    CHECK(cuModuleGetGlobal_v2(&at, &size, module, "variable"));
    snprintf(name, sizeof name, "a variable of module %d", i + 1);
    say_address(name, at);
    CHECK(cuModuleGetGlobal_v2(&at, &size, module, "constant"));
    snprintf(name, sizeof name, "a constant of module %d", i + 1);
    say_address(name, at);
    CHECK(cuModuleGetFunction(&function, module, "reads"));
    snprintf(name, sizeof name, "a function of module %d", i + 1);
    say_address(name, (uint64_t)(uintptr_t)function);
  }
  CHECK(cuLibraryLoadData(&library, variables_ptx, NULL, NULL, 0, NULL, NULL, 0));
  CHECK(cuLibraryGetKernel(&kernel, library, "reads"));
  say_address("a kernel of a library", (uint64_t)(uintptr_t)kernel);
  const CUDA_RESOURCE_DESC resource = {
      .resType = CU_RESOURCE_TYPE_LINEAR,
      .res.linear = {
          .devPtr = memory, .format = CU_AD_FORMAT_FLOAT, .numChannels = 1, .sizeInBytes = 4096}};
  const CUDA_TEXTURE_DESC texture = {.filterMode = CU_TR_FILTER_MODE_POINT};
  for (int i = 0; i < 2; i++) {
    CUtexObject object;
    char name[40];
    CHECK(cuTexObjectCreate(&object, &resource, &texture, NULL));
    snprintf(name, sizeof name, "texture object %d", i + 1);
    say_address(name, object);
  }
  say_address("memory of cuMemAlloc", memory);
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  say_address("a stream", (uint64_t)(uintptr_t)stream);
}
