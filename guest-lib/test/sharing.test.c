// Memory and events shared with other processes: what is asked of the server, and what of its
// answers is believed.
#include <string.h>
#include <unistd.h>

#include "allocation/virtual_memory.h"
#include "check.h"
#include "memory/memory_range.h"
#include "session.h"

#define MIB (1ull << 20)
#define GRANULE WIRE_GRANULE
#define LAZY CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define FAILS(result, call) assert_int_equal((call), CUDA_ERROR_##result)

static struct wire_MemoryExport asked;  // the last one
static int exports, imports, acknowledged, ends, checks;
static struct wire_ShareEnd ended;                    // the last one
static uint64_t told_size, told_offset, told_length;  // of the memory imported next
static _Atomic int32_t refusal;  // the server's thread reads it with every command

// A server whose tokens are numbers.
static _Bool play(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  uint64_t request = ((const struct wire_request *)h)->request;
  struct {
    struct wire_reply reply;
    uint64_t words[8];
  } answer = {.reply = {.request = request, .result = refusal}};
  answer.reply.header.op = WIRE_REPLY;
  uint32_t words = 0;
  switch (h->op) {
    case WIRE_MemoryExport:
      asked = *(const struct wire_MemoryExport *)h;
      answer.words[0] = (uint64_t)++exports;
      words = 8;
      break;
    case WIRE_EventExport:
      answer.words[0] = 99;
      words = 8;
      break;
    case WIRE_MemoryImport:
      imports++;
      answer.words[0] = told_size;
      answer.words[1] = told_offset;
      answer.words[2] = told_length;
      words = 3;
      break;
    case WIRE_EventImport:
      break;
    case WIRE_Acknowledge:
      acknowledged++;
      break;
    case WIRE_ShareEnd:
      ended = *(const struct wire_ShareEnd *)h;
      ends++;
      return 1;
    case WIRE_ShareCheck:
      checks++;
      break;
    default:
      return 0;
  }
  answer.reply.header.size = (uint32_t)sizeof answer.reply + (refusal ? 0 : 8 * words);
  server_send(server, &answer, answer.reply.header.size);
  return 1;
}

static const struct server_hook hook = {play, NULL};

static uint64_t free_bytes(void) {
  size_t free, total;
  OK(cuMemGetInfo_v2(&free, &total));
  return free;
}

static void what_is_exported(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  CUdeviceptr small, large, pooled;
  CUipcMemHandle handle;
  OK(cuMemAlloc_v2(&small, 100));
  OK(cuMemAlloc_v2(&small, 3000));
  OK(cuMemAlloc_v2(&large, 5 * MIB));
  OK(cuMemAllocAsync(&pooled, 100, NULL));
  OK(cuIpcGetMemHandle(&handle, small + 5));
  assert_int_equal(asked.memory, 0);
  assert_int_equal(asked.address, small & ~(GRANULE - 1));
  assert_int_equal(asked.size, GRANULE);
  assert_int_equal(asked.address + asked.offset, small);
  assert_int_equal(asked.length, 3000);
  OK(cuIpcGetMemHandle(&handle, large));
  assert_int_equal(asked.address, large);
  assert_int_equal(asked.size, 6 * MIB);
  assert_int_equal(asked.length, 5 * MIB);
  assert_int_equal(handle.reserved[0], 2);
  FAILS(INVALID_VALUE, cuIpcGetMemHandle(NULL, large));
  FAILS(INVALID_VALUE, cuIpcGetMemHandle(&handle, pooled));
  FAILS(INVALID_VALUE, cuIpcGetMemHandle(&handle, 4096));
  FAILS(INVALID_VALUE, cuIpcGetMemHandle(&handle, large + 5 * MIB));
  refusal = CUDA_ERROR_OPERATING_SYSTEM;
  FAILS(OPERATING_SYSTEM, cuIpcGetMemHandle(&handle, large));
}

// Frees what had a share name, and looks at what the server was told by when the call returned.
#define ENDS(call, of, at, bytes)                           \
  do {                                                      \
    int before = ends, waits = acknowledged;                \
    OK(call);                                               \
    assert_int_equal(ends, before + 1);                     \
    assert_int_equal(acknowledged, waits + 1);              \
    assert_int_equal(ended.address, (of) & ~(GRANULE - 1)); \
    assert_int_equal(ended.address + ended.offset, (at));   \
    assert_int_equal(ended.length, (bytes));                \
  } while (0)

static void what_is_freed_has_no_name(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  sessions[0].share_ends = 1;
  CUdeviceptr small, beside, large, pooled, again;
  CUipcMemHandle handle;
  CUmemPoolPtrExportData data;
  OK(cuMemAlloc_v2(&beside, 3000));
  OK(cuMemAlloc_v2(&small, 3000));
  OK(cuMemAlloc_v2(&large, 5 * MIB));
  OK(cuIpcGetMemHandle(&handle, small));
  OK(cuIpcGetMemHandle(&handle, small));
  OK(cuIpcGetMemHandle(&handle, large));
  OK(cuMemFree_v2(beside));
  assert_int_equal(ends + acknowledged, 0);  // it was not shared
  ENDS(cuMemFree_v2(small), small, small, 3000);
  ENDS(cuMemFree_v2(large), large, large, 5 * MIB);
  // What lies there next has nothing to do with it.
  OK(cuMemAlloc_v2(&again, 3000));
  OK(cuMemFree_v2(again));
  assert_int_equal(ends, 2);

  CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                               .location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}}};
  CUmemoryPool pool;
  OK(cuMemPoolCreate(&pool, &properties));
  OK(cuMemAllocFromPoolAsync(&pooled, 1000, pool, NULL));
  OK(cuMemPoolExportPointer(&data, pooled));
  ENDS(cuMemFreeAsync(pooled, NULL), pooled, pooled, 1000);
  OK(cuMemAllocFromPoolAsync(&again, 1000, pool, NULL));
  OK(cuMemFreeAsync(again, NULL));
  assert_int_equal(ends, 3);

  CUcontext context;
  OK(cuCtxCreate_v2(&context, 0, 0));
  OK(cuMemAlloc_v2(&small, 3000));
  OK(cuMemAlloc_v2(&large, 5 * MIB));
  OK(cuIpcGetMemHandle(&handle, small));
  OK(cuIpcGetMemHandle(&handle, large));
  int waits = acknowledged;
  OK(cuCtxDestroy_v2(context));
  assert_int_equal(ends, 5);
  assert_int_equal(acknowledged, waits + 1);  // for both

  OK(cuMemAlloc_v2(&large, 5 * MIB));
  OK(cuIpcGetMemHandle(&handle, large));
  ENDS(cuDevicePrimaryCtxRelease_v2(0), large, large, 5 * MIB);
}

static void an_older_server_is_told_nothing(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  CUdeviceptr memory, again;
  CUipcMemHandle handle = {{1}};
  OK(cuMemAlloc_v2(&memory, 3000));
  OK(cuIpcGetMemHandle(&handle, memory));
  OK(cuMemFree_v2(memory));
  told_size = told_length = GRANULE;
  OK(cuIpcOpenMemHandle_v2(&memory, handle, LAZY));
  OK(cuIpcOpenMemHandle_v2(&again, handle, LAZY));
  OK(cuCtxSynchronize());
  assert_int_equal(ends + checks + acknowledged, 0);
}

static void what_is_open_is_asked_for_again(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  sessions[0].share_ends = 1;
  CUdeviceptr memory, again;
  CUipcMemHandle handle = {{1}};
  told_size = told_length = GRANULE;
  OK(cuIpcOpenMemHandle_v2(&memory, handle, LAZY));
  assert_int_equal(checks, 0);
  OK(cuIpcOpenMemHandle_v2(&again, handle, LAZY));
  assert_int_equal(checks, 1);
  assert_int_equal(again, memory);
  refusal = CUDA_ERROR_INVALID_HANDLE;
  FAILS(INVALID_HANDLE, cuIpcOpenMemHandle_v2(&again, handle, LAZY));
  refusal = 0;
  assert_int_equal(imports, 1);
  // It was opened twice.
  OK(cuIpcCloseMemHandle(memory));
  OK(cuIpcCloseMemHandle(memory));
  FAILS(INVALID_VALUE, cuIpcCloseMemHandle(memory));
}

static void what_is_imported(void **state) {
  (void)state;
  struct server *server = session_start(16 * MIB, hook);
  CUipcMemHandle handle = {{1}};
  CUdeviceptr first, again, base;
  size_t size;
  told_size = 2 * GRANULE;
  told_offset = 512;
  told_length = 3 * MIB;
  FAILS(INVALID_VALUE, cuIpcOpenMemHandle_v2(&first, handle, 0));
  OK(cuIpcOpenMemHandle_v2(&first, handle, LAZY));
  assert_int_equal(first % GRANULE, 512);
  OK(cuIpcOpenMemHandle_v2(&again, handle, LAZY));
  assert_int_equal(again, first);
  assert_int_equal(imports, 1);
  OK(memory_check(first, 3 * MIB));
  FAILS(INVALID_VALUE, memory_check(first, 3 * MIB + 1));
  FAILS(INVALID_VALUE, memory_check(first - 1, 1));
  OK(cuMemGetAddressRange_v2(&base, &size, first + 5));
  assert_int_equal(base, first);
  assert_int_equal(size, 3 * MIB);
  assert_int_equal(free_bytes(), 16 * MIB - 2 * GRANULE);
  FAILS(INVALID_VALUE, cuMemFree_v2(first));
  FAILS(INVALID_VALUE, cuIpcGetMemHandle(&handle, first));
  FAILS(INVALID_VALUE, cuIpcCloseMemHandle(first + 1));
  OK(cuIpcCloseMemHandle(first));
  OK(memory_check(first, 1));  // it was opened twice
  OK(cuIpcCloseMemHandle(first));
  FAILS(INVALID_VALUE, memory_check(first, 1));
  FAILS(INVALID_VALUE, cuIpcCloseMemHandle(first));
  assert_int_equal(free_bytes(), 16 * MIB);
  OK(cuCtxSynchronize());
  assert_int_equal(server_mapped(server), 0);
  assert_int_equal(server_count(server, WIRE_MemoryRelease), 1);
}

// What a server says is not believed when it makes no sense, and costs nothing.
static void answers_that_make_no_sense(void **state) {
  (void)state;
  struct server *server = session_start(16 * MIB, hook);
  const uint64_t wrong[][3] = {{0, 0, 0},
                               {4096, 0, 4096},
                               {GRANULE, GRANULE + 1, 0},
                               {GRANULE, 1, GRANULE},
                               {GRANULE, UINT64_MAX, 2},
                               {0 - GRANULE, 0, 1},
                               {WIRE_WINDOW_SIZE + GRANULE, 0, 1}};
  CUipcMemHandle handle = {{1}};
  CUdeviceptr address;
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    told_size = wrong[i][0];
    told_offset = wrong[i][1];
    told_length = wrong[i][2];
    FAILS(INVALID_HANDLE, cuIpcOpenMemHandle_v2(&address, handle, LAZY));
  }
  told_size = 18 * MIB;
  told_offset = told_length = 0;
  FAILS(OUT_OF_MEMORY, cuIpcOpenMemHandle_v2(&address, handle, LAZY));
  refusal = CUDA_ERROR_INVALID_CONTEXT;
  FAILS(INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&address, handle, LAZY));
  assert_int_equal(free_bytes(), 16 * MIB);
  refusal = 0;
  OK(cuCtxSynchronize());
  assert_int_equal(server_count(server, WIRE_MemoryPlace), 0);
}

static void descriptors(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}}};
  CUmemGenericAllocationHandle plain, shareable, imported;
  OK(cuMemCreate(&plain, GRANULE, &properties, 0));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  OK(cuMemCreate(&shareable, 2 * GRANULE, &properties, 0));
  const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int fd;
  FAILS(INVALID_VALUE, cuMemExportToShareableHandle(&fd, plain, type, 0));
  FAILS(INVALID_VALUE, cuMemExportToShareableHandle(&fd, shareable, type, 1));
  FAILS(INVALID_VALUE, cuMemExportToShareableHandle(NULL, shareable, type, 0));
  FAILS(INVALID_VALUE, cuMemExportToShareableHandle(&fd, shareable + 1, type, 0));
  FAILS(NOT_SUPPORTED, cuMemExportToShareableHandle(&fd, shareable, CU_MEM_HANDLE_TYPE_WIN32, 0));
  OK(cuMemExportToShareableHandle(&fd, shareable, type, 0));
  assert_int_equal(asked.memory, shareable);
  assert_int_equal(asked.length, 2 * GRANULE);
  assert_int_not_equal(pwrite(fd, "x", 1, 0), 1);  // nobody changes it on the way
  told_size = told_length = 2 * GRANULE;
  OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, type));
  assert_int_equal(free_bytes(), 64 * MIB - 5 * GRANULE);
  CUdeviceptr at;
  OK(cuMemAddressReserve(&at, 2 * GRANULE, 0, 0, 0));
  OK(cuMemMap(at, 2 * GRANULE, 0, imported, 0));
  FAILS(INVALID_VALUE, cuMemMap(at, 3 * GRANULE, 0, imported, 0));
  OK(cuMemUnmap(at, 2 * GRANULE));
  OK(cuMemRelease(imported));
  close(fd);
  FAILS(INVALID_VALUE, cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, type));
  FAILS(INVALID_VALUE, cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)-1, type));
  FAILS(INVALID_VALUE, cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)0, type));
  FAILS(NOT_SUPPORTED, cuMemImportFromShareableHandle(&imported, NULL, CU_MEM_HANDLE_TYPE_FABRIC));
}

static void events(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, hook);
  CUevent plain, shared, opened;
  CUipcEventHandle handle;
  FAILS(INVALID_VALUE, cuEventCreate(&shared, CU_EVENT_INTERPROCESS));
  OK(cuEventCreate(&shared, (unsigned)CU_EVENT_INTERPROCESS | (unsigned)CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&plain, 0));
  FAILS(INVALID_HANDLE, cuIpcGetEventHandle(&handle, plain));
  FAILS(INVALID_VALUE, cuIpcGetEventHandle(NULL, shared));
  OK(cuIpcGetEventHandle(&handle, shared));
  OK(cuIpcOpenEventHandle(&opened, handle));
  // Others may wait for it as soon as this returns.
  OK(cuEventRecord(plain, NULL));
  assert_int_equal(acknowledged, 0);
  OK(cuEventRecord(opened, NULL));
  assert_int_equal(acknowledged, 1);
  // Nothing is known of what others record.
  OK(cuCtxSynchronize());
  uint64_t before = server_count(server, WIRE_cuEventQuery);
  OK(cuEventQuery(plain));
  OK(cuEventQuery(opened));
  OK(cuEventQuery(shared));
  assert_int_equal(server_count(server, WIRE_cuEventQuery), before + 2);
  OK(cuEventDestroy_v2(opened));
  refusal = CUDA_ERROR_INVALID_HANDLE;
  FAILS(INVALID_HANDLE, cuIpcOpenEventHandle(&opened, handle));
  FAILS(INVALID_HANDLE, cuEventDestroy_v2(opened));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_exported),
      cmocka_unit_test(what_is_freed_has_no_name),
      cmocka_unit_test(an_older_server_is_told_nothing),
      cmocka_unit_test(what_is_open_is_asked_for_again),
      cmocka_unit_test(what_is_imported),
      cmocka_unit_test(answers_that_make_no_sense),
      cmocka_unit_test(descriptors),
      cmocka_unit_test(events),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
