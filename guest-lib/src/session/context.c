#include "session/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "abi_storage.h"
#include "arrays/array.h"
#include "arrays/texture.h"
#include "exec/exec.h"
#include "guest_calls.h"
#include "kernels/module.h"
#include "memory/memory.h"
#include "memory/peer.h"
#include "pages/pages.h"
#include "session/lane.h"
#include "streams/event.h"
#include "streams/host_function.h"
#include "streams/stream.h"
#include "wire/enter.h"

#define STACK_MAX 64

static __thread struct {
  uint64_t handles[STACK_MAX];
  int depth;
} stack;

static uint64_t primaries[DEVICES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards retain counts
static _Atomic uint64_t next_id = 1;
_Atomic _Bool contexts_created;

uint64_t context_current_handle(void) { return stack.depth ? stack.handles[stack.depth - 1] : 0; }

struct context *context_current(void) {
  uint64_t handle = context_current_handle();
  return handle ? handle_object(WIRE_KIND_CONTEXT, handle) : NULL;
}

CUresult context_unusable(void) {
  if (!stack.depth) return CUDA_ERROR_INVALID_CONTEXT;
  const struct context *context = context_current();
  return !context || context->inactive ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

static CUcontext as_driver(uint64_t handle) { return (CUcontext)(uintptr_t)handle; }

static struct context *find(CUcontext context) {
  return handle_object(WIRE_KIND_CONTEXT, handle_of(context));
}

static uint64_t new_context(int device, unsigned flags, _Bool primary) {
  struct context *context = calloc(1, sizeof *context);
  if (!context) return 0;
  context->device = device;
  context->flags = flags;
  context->api_version = 3020;
  context->id = atomic_fetch_add(&next_id, 1);
  context->primary = primary;
  context->attached = 1;
  uint64_t handle = handle_mint_for_any(WIRE_KIND_CONTEXT, context);
  if (!handle) free(context);
  return handle;
}

_Bool context_start(int count) {
  for (int i = 0; i < count; i++)
    if (!primaries[i] && !(primaries[i] = new_context(i, 0, 1))) return 0;
  return 1;
}

uint64_t context_primary(int device) { return primaries[device]; }

// Everything the session has on the server is released; every handle but contexts ends.
static CUresult reset(int device) {
  lane_use(lane_of_device(device));
  // Functions of the program are called first; the server would wait for them and hear nothing.
  if (host_functions_may_come()) context_synchronize();
  host_function_drain();
  peer_reset();
  pages_leave_lane();
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_ContextReset(&answer);
  answer_free(&answer);
  if (guest_is_lost()) return result;
  result = (CUresult)answer.result;  // errors of work before the reset die with the context
  stream_forget_all();
  event_forget_all();
  module_forget_all();
  exec_forget_all();
  texture_forget_all();
  reference_destroy_of(0);
  array_forget_all();
  host_function_forget_all();
  memory_forget_all();
  device_forget_limits(device);
  abi_storage_drop(as_driver(primaries[device]));
  guest_clear_errors();
  context_settled(answer.sequence);
  return result;
}

// ---- primary contexts --------------------------------------------------------------------------

// With the lock held.
static void set_inactive(struct context *context, _Bool inactive) {
  context->inactive = inactive;
  _Bool some = 0;
  for (int i = 0; i < DEVICES_MAX && primaries[i]; i++)
    some |= find(as_driver(primaries[i]))->inactive;
  guest_watch_contexts(some);
}

CUresult guest_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  struct context *context = find(as_driver(primaries[dev]));
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_SUCCESS;
  if (context->was_released) result = reset(dev);
  if (!result) {
    context->was_released = 0;
    context->retained++;
    set_inactive(context, 0);
  }
  pthread_mutex_unlock(&lock);
  if (!result) *pctx = as_driver(primaries[dev]);
  return result;
}

CUresult guest_cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  struct context *context = find(as_driver(primaries[dev]));
  pthread_mutex_lock(&lock);
  CUresult result = context->retained ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  // The last release destroys what the context has. Programs do that when they exit, and the end
  // of the connection does it for them, so nothing is sent before somebody comes back.
  if (!result && --context->retained == 0) {
    context->was_released = 1;
    set_inactive(context, 1);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult guest_cuDevicePrimaryCtxRelease(CUdevice dev) {
  return guest_cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult guest_cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  struct context *context = find(as_driver(primaries[dev]));
  pthread_mutex_lock(&lock);
  context->was_released = 0;
  CUresult result = reset(dev);
  if (context->retained) set_inactive(context, 1);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult guest_cuDevicePrimaryCtxReset(CUdevice dev) {
  return guest_cuDevicePrimaryCtxReset_v2(dev);
}

CUresult guest_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  struct context *context = find(as_driver(primaries[dev]));
  *flags = context->flags;
  *active = context->retained > 0 && !context->inactive;
  return CUDA_SUCCESS;
}

CUresult guest_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  find(as_driver(primaries[dev]))->flags = flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return guest_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

// ---- created contexts --------------------------------------------------------------------------

CUresult guest_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  if (!pctx || flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (stack.depth == STACK_MAX) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t handle = new_context(dev, flags, 0);
  if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
  contexts_created = 1;
  stack.handles[stack.depth++] = handle;
  *pctx = as_driver(handle);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  return guest_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult guest_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                              unsigned int flags, CUdevice dev) {
  if (paramsArray || numParams) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return guest_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult guest_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                              unsigned int flags, CUdevice dev) {
  if (ctxCreateParams &&
      (ctxCreateParams->execAffinityParams || ctxCreateParams->numExecAffinityParams))
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  if (ctxCreateParams && ctxCreateParams->cigParams) return CUDA_ERROR_NOT_SUPPORTED;
  return guest_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult guest_cuCtxDestroy_v2(CUcontext ctx) {
  struct context *context = find(ctx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  uint64_t handle = handle_of(ctx);
  lane_use(lane_of_device(context->device));
  // What its kernels print is shown before it ends.
  if (!context_is_settled() && !capture_active()) stream_synchronize_of(handle);
  module_destroy_of(handle);
  stream_destroy_of(handle);
  event_destroy_of(handle);
  texture_destroy_of(handle);
  reference_destroy_of(handle);
  array_destroy_of(handle);
  memory_destroy_of(handle);
  peer_forget_context(handle);
  if (context_current_handle() == handle) stack.depth--;
  abi_storage_drop(ctx);
  free(handle_retire(WIRE_KIND_CONTEXT, handle));
  handle_recycle(WIRE_KIND_CONTEXT, handle);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxDestroy(CUcontext ctx) { return guest_cuCtxDestroy_v2(ctx); }

CUresult guest_cuCtxAttach(CUcontext *pctx, unsigned int flags) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!pctx || flags) return CUDA_ERROR_INVALID_VALUE;
  if (context->primary) return CUDA_ERROR_INVALID_CONTEXT;  // those are retained
  atomic_fetch_add(&context->attached, 1);
  *pctx = as_driver(context_current_handle());
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxDetach(CUcontext ctx) {
  struct context *context = find(ctx);
  if (!context || context->primary || context_current_handle() != handle_of(ctx))
    return CUDA_ERROR_INVALID_CONTEXT;
  return atomic_fetch_sub(&context->attached, 1) == 1 ? guest_cuCtxDestroy_v2(ctx) : CUDA_SUCCESS;
}

// ---- the current one ---------------------------------------------------------------------------

CUresult guest_cuCtxPushCurrent_v2(CUcontext ctx) {
  if (!find(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.depth == STACK_MAX) return CUDA_ERROR_OUT_OF_MEMORY;
  stack.handles[stack.depth++] = handle_of(ctx);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxPushCurrent(CUcontext ctx) { return guest_cuCtxPushCurrent_v2(ctx); }

CUresult guest_cuCtxPopCurrent_v2(CUcontext *pctx) {
  if (!stack.depth) return CUDA_ERROR_INVALID_CONTEXT;
  uint64_t handle = stack.handles[--stack.depth];
  if (pctx) *pctx = as_driver(handle);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxPopCurrent(CUcontext *pctx) { return guest_cuCtxPopCurrent_v2(pctx); }

CUresult guest_cuCtxSetCurrent(CUcontext ctx) {
  if (!ctx) {
    if (stack.depth) stack.depth--;
    return CUDA_SUCCESS;
  }
  if (!find(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.depth) stack.depth = 1;
  stack.handles[stack.depth - 1] = handle_of(ctx);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetCurrent(CUcontext *pctx) {
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  *pctx = as_driver(context_current_handle());
  return CUDA_SUCCESS;
}

// The context given, or the current one for NULL; NULL when there is none.
static struct context *given_or_current(CUcontext ctx) {
  return ctx ? find(ctx) : context_current();
}

CUresult guest_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
  struct context *context = given_or_current(ctx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetDevice(CUdevice *device) { return guest_cuCtxGetDevice_v2(device, NULL); }

CUresult guest_cuCtxGetFlags(unsigned int *flags) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxSetFlags(unsigned int flags) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
  struct context *context = given_or_current(ctx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->inactive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (!ctxId) return CUDA_ERROR_INVALID_VALUE;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
  struct context *context = given_or_current(ctx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  // The runtime takes this call to see whether a primary context has been reset.
  if (context->inactive) return CUDA_ERROR_INVALID_CONTEXT;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  device_priorities(context->device, leastPriority, greatestPriority);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!pconfig) return CUDA_ERROR_INVALID_VALUE;
  *pconfig = context->cache_config;
  return CUDA_SUCCESS;
}

// Cache preferences are hints: kept, so that reading them back gives what was set.
CUresult guest_cuCtxSetCacheConfig(CUfunc_cache config) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  context->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!pConfig) return CUDA_ERROR_INVALID_VALUE;
  *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxSetSharedMemConfig(CUsharedconfig config) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  // Banks have one width on all devices of today: the call is heard and ignored.
  return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
}

CUresult guest_cuCtxResetPersistingL2Cache(void) {
  return context_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult guest_cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!pvalue || (unsigned)limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  return device_limit(context->device, limit, pvalue);
}

static CUresult set_limit(int device, CUlimit limit, size_t value) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_LimitSet(limit, value, &answer);
  // Drivers round some of them.
  if (!result)
    device_set_limit(device, limit, ((const struct wire_LimitSet_reply *)answer.reply)->value);
  answer_free(&answer);
  return result;
}

CUresult guest_cuCtxSetLimit(CUlimit limit, size_t value) {
  struct context *context = context_current();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if ((unsigned)limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (limit >= CU_LIMIT_CIG_ENABLED) return CUDA_ERROR_UNSUPPORTED_LIMIT;  // nobody draws here
  size_t before;
  CUresult result = device_limit(context->device, limit, &before);
  if (result || before == value) return result;
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&one_at_a_time);
  // Counted here as on the server, or what is called free could not be had.
  result = memory_raise(device_raised(context->device, limit, value));
  if (!result) result = set_limit(context->device, limit, value);
  if (!guest_is_lost() && device_limit(context->device, limit, &before) == CUDA_SUCCESS)
    memory_raise(device_raised(context->device, limit, before));
  pthread_mutex_unlock(&one_at_a_time);
  return result;
}

// A server's one context stands for all of the program's on its device, so these cover the streams
// of all.
CUresult guest_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  const struct context *context = given_or_current(hCtx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  lane_follow(lane_of_device(context->device), CUDA_ERROR_INVALID_CONTEXT);
  return event_record_all(hEvent, hCtx ? handle_of(hCtx) : context_current_handle());
}

CUresult guest_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  const struct context *context = given_or_current(hCtx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  lane_follow(lane_of_device(context->device), CUDA_ERROR_INVALID_CONTEXT);
  if (handle_check(WIRE_KIND_EVENT, handle_of(hEvent))) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = put_ContextWait(handle_of(hEvent));
  stream_mark_all(batch_sequence());
  return result;
}

CUresult guest_cuCtxSynchronize_v2(CUcontext ctx) {
  const struct context *context = given_or_current(ctx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  lane_use(lane_of_device(context->device));
  if (guest_condition) {
    // The family needs no context, so a poisoned one has to be noticed here.
    CUresult result =
        context->inactive ? CUDA_ERROR_CONTEXT_IS_DESTROYED : guest_refuse(NEEDS_OBJECT);
    if (result) return result;
  }
  if (capture_active()) {
    CUresult result = capture_check_context_wait();
    if (result) return result;
  }
  pages_will_wait();
  CUresult result = context_is_settled() ? guest_take_async_error() : context_synchronize();
  pages_have_waited();
  return result;
}

CUresult guest_cuCtxSynchronize(void) { return guest_cuCtxSynchronize_v2(NULL); }
