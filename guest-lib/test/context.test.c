// Contexts: their stack and usage count, limits, events of all streams, and what devices do not
// offer.
#include "session/context.h"

#include <stdatomic.h>
#include <string.h>

#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "session.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;

static uint64_t round_trips(void) { return atomic_load(&guest_stats->round_trips); }

static CUcontext current(void) {
  CUcontext context;
  assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

static void a_created_context_is_counted(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUcontext primary = current(), created, attached;
  assert_int_equal(cuCtxAttach(&attached, 0), CUDA_ERROR_INVALID_CONTEXT);
  assert_int_equal(cuCtxDetach(primary), CUDA_ERROR_INVALID_CONTEXT);
  assert_int_equal(cuCtxCreate_v2(&created, 0, 0), CUDA_SUCCESS);
  assert_int_equal(cuCtxAttach(&attached, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxAttach(&attached, 0), CUDA_SUCCESS);
  assert_ptr_equal(attached, created);
  assert_int_equal(cuCtxDetach(created), CUDA_SUCCESS);
  assert_ptr_equal(current(), created);
  assert_int_equal(cuCtxDetach(created), CUDA_SUCCESS);
  assert_ptr_equal(current(), primary);
  assert_int_equal(cuCtxDetach(created), CUDA_ERROR_INVALID_CONTEXT);
}

static uint64_t limit_asked, limit_made;
static _Bool serve_limits(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op != WIRE_LimitSet) return 0;
  const struct wire_LimitSet *q = (const void *)h;
  limit_asked = q->value;
  if (q->value > 1 << 20) {
    server_reply(server, q->request.request, CUDA_ERROR_OUT_OF_MEMORY, 0);
    return 1;
  }
  struct wire_LimitSet_reply answer = {.value = limit_made};
  answer.reply.header = (struct wire_header){WIRE_REPLY, 0, sizeof answer};
  answer.reply.request = q->request.request;
  server_send(server, &answer, sizeof answer);
  return 1;
}

static void limits_are_what_the_driver_made_of_them(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){serve_limits, NULL});
  size_t value;
  limit_made = 4096;
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4001), CUDA_SUCCESS);
  assert_int_equal(limit_asked, 4001);
  uint64_t before = round_trips();
  assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  assert_int_equal(value, 4096);
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);  // as it is
  assert_int_equal(round_trips(), before);
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  assert_int_equal(value, 4096);
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_MAX, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxSetLimit((CUlimit)-1, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_CIG_ENABLED, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
  assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_MAX), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
}

static _Bool obey_limits(struct server *server, const struct wire_header *h, void *context) {
  if (h->op != WIRE_LimitSet) return 0;
  limit_made = ((const struct wire_LimitSet *)h)->value;
  return serve_limits(server, h, context);
}

static size_t free_now(void) {
  size_t left, total;
  assert_int_equal(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
  return left;
}

static void what_limits_are_raised_by_is_not_free(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){obey_limits, NULL});
  size_t first, value;
  CUdeviceptr all;
  assert_int_equal(cuCtxGetLimit(&first, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, first + 1000), CUDA_SUCCESS);
  assert_int_equal(free_now(), 62 * MIB);  // in whole granules
  // As many launches as take 3 MiB.
  assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT), CUDA_SUCCESS);
  value += 3 * MIB / wire_limit_bytes(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 0);
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, value), CUDA_SUCCESS);
  assert_int_equal(free_now(), 60 * MIB);
  assert_int_equal(cuMemAlloc_v2(&all, free_now()), CUDA_SUCCESS);
  // What the session has no memory for is refused here; the server is not asked.
  uint64_t before = round_trips();
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)-1), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(round_trips(), before);
  assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
  assert_int_equal(value, first + 1000);
  // What the server refuses costs nothing.
  assert_int_equal(cuMemFree_v2(all), CUDA_SUCCESS);
  assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 20 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(free_now(), 60 * MIB);
  // A reset takes it all back.
  assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  session_enter();
  assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
  assert_int_equal(value, first);
  assert_int_equal(free_now(), 64 * MIB);
}

static void an_event_of_all_streams(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  CUstream stream;
  CUevent event, stranger;
  assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
  assert_int_equal(cuCtxRecordEvent(NULL, event), CUDA_SUCCESS);
  // What settles one stream alone says nothing of the event.
  assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
  uint64_t before = round_trips();
  assert_int_equal(cuEventSynchronize(event), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 1);
  assert_int_equal(cuEventQuery(event), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 1);
  // A stream that waits has something to be asked about.
  assert_int_equal(cuCtxWaitEvent(NULL, event), CUDA_SUCCESS);
  assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 2);
  assert_int_equal(server_count(server, WIRE_ContextRecord), 1);
  assert_int_equal(server_count(server, WIRE_ContextWait), 1);

  CUcontext primary = current(), created;
  assert_int_equal(cuCtxCreate_v2(&created, 0, 0), CUDA_SUCCESS);
  assert_int_equal(cuEventCreate(&stranger, 0), CUDA_SUCCESS);
  assert_int_equal(cuCtxRecordEvent(primary, stranger), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuCtxRecordEvent(created, stranger), CUDA_SUCCESS);
  assert_int_equal(cuCtxRecordEvent((CUcontext)stranger, stranger), CUDA_ERROR_INVALID_CONTEXT);
  assert_int_equal(cuCtxRecordEvent(created, NULL), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuCtxWaitEvent(NULL, (CUevent)stream), CUDA_ERROR_INVALID_HANDLE);
}

static void a_callback(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle) {
  (void)info, (void)data, (void)handle;
}

static void what_devices_do_not_offer(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  uint64_t before = round_trips();
  CUexecAffinityParam affinity;
  int supported = 7;
  assert_int_equal(cuDeviceGetExecAffinitySupport(&supported, 0, 0), CUDA_SUCCESS);
  assert_int_equal(supported, 0);
  assert_int_equal(cuDeviceGetExecAffinitySupport(&supported, 0, 9), CUDA_ERROR_INVALID_DEVICE);
  assert_int_equal(cuDeviceGetExecAffinitySupport(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxGetExecAffinity(&affinity, 0), CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS};
  unsigned answers[2] = {7, 7};
  assert_int_equal(cuDeviceGetHostAtomicCapabilities(answers, operations, 2, 0), CUDA_SUCCESS);
  assert_int_equal(answers[0] | answers[1], 0);
  assert_int_equal(cuDeviceGetHostAtomicCapabilities(answers, operations, 0, 0),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuDeviceGetP2PAtomicCapabilities(answers, operations, 2, 0, 0),
                   CUDA_ERROR_INVALID_DEVICE);
  assert_int_equal(cuDeviceGetP2PAtomicCapabilities(answers, operations, 2, 0, 1), CUDA_SUCCESS);
  CUcontext primary = current(), other;
  assert_int_equal(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  assert_int_equal(cuCtxEnablePeerAccess(primary, 0), CUDA_ERROR_INVALID_DEVICE);
  assert_int_equal(cuCtxEnablePeerAccess(other, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  assert_int_equal(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  assert_int_equal(cuCtxDisablePeerAccess(NULL), CUDA_ERROR_INVALID_CONTEXT);
  CUasyncCallbackHandle handle, second;
  assert_int_equal(cuDeviceRegisterAsyncNotification(0, a_callback, NULL, &handle), CUDA_SUCCESS);
  assert_int_equal(cuDeviceRegisterAsyncNotification(1, a_callback, NULL, &second), CUDA_SUCCESS);
  assert_int_equal(cuDeviceUnregisterAsyncNotification(0, second), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuDeviceUnregisterAsyncNotification(0, handle), CUDA_SUCCESS);
  assert_int_equal(cuDeviceUnregisterAsyncNotification(0, handle), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuDeviceUnregisterAsyncNotification(1, second), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before);
}

static void what_a_released_context_had_is_gone(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUdeviceptr memory;
  CUcontext context;
  CUmemorytype type;
  CUdevice device;
  int flags;
  assert_int_equal(cuMemAlloc_v2(&memory, 16), CUDA_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  // Calls that need no current context know what they are given by its own.
  assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxGetCacheConfig((CUfunc_cache *)&flags), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  assert_int_equal(cuCtxGetDevice(&device), CUDA_SUCCESS);  // where one is, is asked all the same
  assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAlloc_v2(&memory, 16), CUDA_SUCCESS);
  assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
  assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory),
                   CUDA_SUCCESS);
  assert_int_equal(cuMemFree_v2(memory), CUDA_SUCCESS);
  assert_int_equal(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_created_context_is_counted),
      cmocka_unit_test(limits_are_what_the_driver_made_of_them),
      cmocka_unit_test(what_limits_are_raised_by_is_not_free),
      cmocka_unit_test(an_event_of_all_streams),
      cmocka_unit_test(what_devices_do_not_offer),
      cmocka_unit_test(what_a_released_context_had_is_gone),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
