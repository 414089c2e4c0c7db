#include "abi_tables.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi_integrity.h"
#include "abi_storage.h"

// ---------------------------------------------------------------------------------------------
// Slots that no client we know calls: each says its name in the log once, and refuses.

static int refuse(atomic_flag *said, const char *table, int slot) {
  if (!atomic_flag_test_and_set(said)) {
    char line[96];
    snprintf(line, sizeof line, "private table %s: slot %d was called and is not implemented",
             table, slot);
    abi_host.log(ABI_LOG_WARN, line);
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

#define UNUSED_SLOT(table, slot)                \
  static int table##_##slot(void) {             \
    static atomic_flag said = ATOMIC_FLAG_INIT; \
    return refuse(&said, #table, slot);         \
  }

#define SLOT(function) ((const void *)(function))
#define SIZE_SLOT(slots) ((const void *)((slots) * sizeof(void *)))

// ---------------------------------------------------------------------------------------------
// CUDART: how the runtime reaches primary contexts without keeping them alive. Before CUDA 12 it
// also loads its modules here, from the wrapper that nvcc puts around a fatbin.

static CUresult cudart_primary_context(CUcontext *context, CUdevice device) {
  return abi_host.primary_context(context, device);
}

static CUresult cudart_load(CUmodule *module, const void *wrapper, void *first, void *second,
                            size_t third) {
  (void)first, (void)second, (void)third;  // runtime 11.8 passes zeros
  return cuModuleLoadData(module, wrapper);
}

// The program's code is about to go (__cudaUnregisterFatBinary): nothing here points into it.
static CUresult cudart_forget(const void *wrapper) {
  (void)wrapper;
  return CUDA_SUCCESS;
}

// Called by runtime 13.2 and newer at start-up; it is content with success.
static CUresult cudart_12(void) { return CUDA_SUCCESS; }

UNUSED_SLOT(CUDART, 1)
UNUSED_SLOT(CUDART, 3)
UNUSED_SLOT(CUDART, 4)
UNUSED_SLOT(CUDART, 5)
UNUSED_SLOT(CUDART, 8)
UNUSED_SLOT(CUDART, 9)
UNUSED_SLOT(CUDART, 10)
UNUSED_SLOT(CUDART, 11)

static const void *const cudart_table[13] = {
    SIZE_SLOT(13),     SLOT(CUDART_1),      SLOT(cudart_primary_context),
    SLOT(CUDART_3),    SLOT(CUDART_4),      SLOT(CUDART_5),
    SLOT(cudart_load), SLOT(cudart_forget), SLOT(CUDART_8),
    SLOT(CUDART_9),    SLOT(CUDART_10),     SLOT(CUDART_11),
    SLOT(cudart_12),
};

// ---------------------------------------------------------------------------------------------
// TOOLS_HOOKS: buffers of switches that a profiler would set. They stay zero for good: a non-zero
// entry makes the runtime call back around every API call. The unit of the reported length is not
// known, so the memory behind it is large enough for 8 bytes per element.

enum { FIRST_BUFFER = 1024, SECOND_BUFFER = 14 };
static uint64_t first_buffer[FIRST_BUFFER];
static uint64_t second_buffer[SECOND_BUFFER];

static void hooks_first(void **buffer, size_t *length) {
  *buffer = first_buffer;
  *length = FIRST_BUFFER;
}

static void hooks_second(void **buffer, size_t *length) {
  *buffer = second_buffer;
  *length = SECOND_BUFFER;
}

UNUSED_SLOT(TOOLS_HOOKS, 1)
UNUSED_SLOT(TOOLS_HOOKS, 3)
UNUSED_SLOT(TOOLS_HOOKS, 4)
UNUSED_SLOT(TOOLS_HOOKS, 5)

static const void *const hooks_table[7] = {
    SIZE_SLOT(7),        SLOT(TOOLS_HOOKS_1), SLOT(hooks_first),  SLOT(TOOLS_HOOKS_3),
    SLOT(TOOLS_HOOKS_4), SLOT(TOOLS_HOOKS_5), SLOT(hooks_second),
};

// ---------------------------------------------------------------------------------------------
// TOOLS_TLS: cuBLASLt keys its kernels by the current context, and asks here for it.

static CUresult tls_current_context(CUcontext *context) {
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = abi_host.current_context();
  return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

UNUSED_SLOT(TOOLS_TLS, 1)
UNUSED_SLOT(TOOLS_TLS, 3)

static const void *const tls_table[4] = {SIZE_SLOT(4), SLOT(TOOLS_TLS_1), SLOT(tls_current_context),
                                         SLOT(TOOLS_TLS_3)};

// ---------------------------------------------------------------------------------------------
// TOOLS_CONTEXT: runtimes from 13.4 on do not start without it, and the libraries that have such a
// runtime inside (cuRAND, cuFFT, cuSOLVER) neither; cuBLASLt asks it for numbers that name a
// context and a stream. Inside, a stream is the driver's own object; ours is the handle with its
// meaning of NULL resolved.

static CUresult context_id(CUcontext context, unsigned long long *id) {
  return cuCtxGetId(context, id);
}

static CUresult context_stream(CUcontext context, CUstream stream, CUstream *inner,
                               int per_thread) {
  (void)context;
  if (!inner) return CUDA_ERROR_INVALID_VALUE;
  unsigned long long id;
  if (!stream) stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  CUresult result = cuStreamGetId(stream, &id);
  if (result == CUDA_SUCCESS) *inner = stream;
  return result;
}

static CUresult context_stream_id(CUcontext context, CUstream inner, unsigned long long *id) {
  (void)context;
  return id ? cuStreamGetId(inner, id) : CUDA_ERROR_INVALID_VALUE;
}

// clang-format off
#define CONTEXT_UNUSED(X)                                                                        \
  X(1) X(2) X(3) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18)  \
  X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32) X(33)      \
  X(34) X(35) X(36) X(37) X(38) X(40) X(41) X(42) X(43) X(44) X(45) X(46) X(47) X(48) X(49)      \
  X(50) X(52) X(53) X(54) X(55) X(56) X(57) X(58) X(59) X(60) X(61) X(62) X(63) X(64) X(65)      \
  X(66) X(67) X(68) X(69) X(70) X(71) X(72) X(73) X(74) X(75) X(76) X(77) X(78) X(79) X(80)      \
  X(81) X(82) X(83) X(84) X(85) X(86) X(87) X(88) X(89) X(90) X(91) X(92) X(93) X(94)
// clang-format on

#define DEFINE(slot) UNUSED_SLOT(TOOLS_CONTEXT, slot)
CONTEXT_UNUSED(DEFINE)

#define ENTER(slot) [slot] = SLOT(TOOLS_CONTEXT_##slot),
static const void *const context_table[95] = {
    SIZE_SLOT(95), [4] = SLOT(context_id), [39] = SLOT(context_stream_id),
    [51] = SLOT(context_stream), CONTEXT_UNUSED(ENTER)};

// ---------------------------------------------------------------------------------------------
// TOOLS_MODULE: cuFFT loads modules of one kernel each and finds the kernel by visiting them. The
// table of a real driver is longer; libraries look at its size before they use a slot.

static unsigned module_functions(CUcontext context, CUmodule module,
                                 void (*visit)(void *opaque, CUfunction function), void *opaque) {
  (void)context;
  unsigned count = 0;
  if (cuModuleGetFunctionCount(&count, module) != CUDA_SUCCESS || count == 0) return 0;
  CUfunction *functions = calloc(count, sizeof *functions);
  if (!functions) return 0;
  if (cuModuleEnumerateFunctions(functions, count, module) != CUDA_SUCCESS) count = 0;
  for (unsigned i = 0; i < count; i++) visit(opaque, functions[i]);
  free(functions);
  return count;
}

UNUSED_SLOT(TOOLS_MODULE, 1)
UNUSED_SLOT(TOOLS_MODULE, 2)
UNUSED_SLOT(TOOLS_MODULE, 3)
UNUSED_SLOT(TOOLS_MODULE, 4)
UNUSED_SLOT(TOOLS_MODULE, 5)
UNUSED_SLOT(TOOLS_MODULE, 6)

static const void *const module_table[8] = {
    SIZE_SLOT(8),         SLOT(TOOLS_MODULE_1), SLOT(TOOLS_MODULE_2), SLOT(TOOLS_MODULE_3),
    SLOT(TOOLS_MODULE_4), SLOT(TOOLS_MODULE_5), SLOT(TOOLS_MODULE_6), SLOT(module_functions),
};

// ---------------------------------------------------------------------------------------------
// CLS: context-local storage. The only table without a size.

static const void *const storage_table[4] = {SLOT(abi_storage_put), SLOT(abi_storage_delete),
                                             SLOT(abi_storage_get), NULL};

// ---------------------------------------------------------------------------------------------
// CTX_CHECKS

static CUresult checks_context(CUcontext context, uint32_t *result, void **unused) {
  (void)context;
  (void)unused;
  *result = 0;
  return CUDA_SUCCESS;
}

static uint32_t checks_general(void) { return 0; }

UNUSED_SLOT(CTX_CHECKS, 1)

static const void *const checks_table[4] = {SIZE_SLOT(4), SLOT(CTX_CHECKS_1), SLOT(checks_context),
                                            SLOT(checks_general)};

// ---------------------------------------------------------------------------------------------
// INTEGRITY

static CUresult integrity(uint32_t version, uint64_t unix_seconds, uint64_t answer[2]);

UNUSED_SLOT(INTEGRITY, 2)

static const void *const integrity_table[3] = {SIZE_SLOT(3), SLOT(integrity), SLOT(INTEGRITY_2)};

static CUresult integrity(uint32_t version, uint64_t unix_seconds, uint64_t answer[2]) {
  struct abi_integrity_question question = {
      .driver_version = (uint32_t)abi_host.driver_version(),
      .version = version,
      .pid = (uint32_t)getpid(),
      .thread = (uint32_t)pthread_self(),
      .cudart_table = (uintptr_t)cudart_table,
      .integrity_table = (uintptr_t)integrity_table,
      .function = (uintptr_t)integrity_table[1],
      .unix_seconds = unix_seconds,
      .device_count = abi_host.device_count(),
      .device_identity = abi_host.device_identity,
  };
  abi_integrity_answer(&question, answer);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------------------------------------
// TOPOLOGY: cuBLASLt asks, before it chooses a kernel of clusters, which multiprocessors lie
// together, and does not look whether there is the table. Told that this is not known, it does
// without.

// clang-format off
#define TOPOLOGY_UNUSED(X)                                                                       \
  X(1) X(2) X(3) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18)  \
  X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
// clang-format on

static CUresult topology_groups(void **groups, void **list) {
  (void)groups, (void)list;
  return CUDA_ERROR_NOT_SUPPORTED;
}

#define DEFINE_TOPOLOGY(slot) UNUSED_SLOT(TOPOLOGY, slot)
TOPOLOGY_UNUSED(DEFINE_TOPOLOGY)

#define ENTER_TOPOLOGY(slot) [slot] = SLOT(TOPOLOGY_##slot),
static const void *const topology_table[32] = {SIZE_SLOT(32), [4] = SLOT(topology_groups),
                                               TOPOLOGY_UNUSED(ENTER_TOPOLOGY)};

// ---------------------------------------------------------------------------------------------

static const struct {
  uint8_t id[16];
  const void *const *table;
} tables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
      0xf9},
     cudart_table},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
      0x66},
     hooks_table},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
      0xdc},
     tls_table},
    {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
      0xf2},
     context_table},
    {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99,
      0x1e},
     module_table},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
      0x93},
     storage_table},
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
      0x7e},
     checks_table},
    {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
      0xf2},
     integrity_table},
    {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
      0xca},
     topology_table},
};

// Tables that libraries ask for and do without: every cudart since CUDA 13, and cuDNN's attention.
// A library that asks for another one may not look whether it is there.
static const uint8_t done_without[][16] = {
    {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d,
     0xd9},
    {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3,
     0x28},
};

static enum abi_log_level level_of_absence(const CUuuid *id) {
  for (size_t i = 0; i < sizeof done_without / sizeof *done_without; i++)
    if (memcmp(done_without[i], id->bytes, sizeof done_without[i]) == 0) return ABI_LOG_INFO;
  return ABI_LOG_WARN;
}

const void *abi_export_table(const CUuuid *id) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (memcmp(tables[i].id, id->bytes, sizeof tables[i].id) == 0) return tables[i].table;
  char line[96] = "no private table ";
  for (size_t at = strlen(line), i = 0; i < sizeof id->bytes; i++, at += 2)
    snprintf(line + at, sizeof line - at, "%02x", (unsigned char)id->bytes[i]);
  abi_host.log(level_of_absence(id), line);
  return NULL;
}

CUresult abi_get_export_table(const void **table, const CUuuid *id) {
  if (!table || !id) return CUDA_ERROR_INVALID_VALUE;
  *table = abi_export_table(id);
  return *table ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
