#include "session/context.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "abi_storage.h"
#include "guest_calls.h"

#define STACK_MAX 64

static __thread struct stack {
  int depth;
  // What the current context was found to be. It holds until any context is dropped.
  struct {
    uint64_t handle, drops;
    struct context *context;
  } found;
  uint64_t handles[STACK_MAX];
} stack;

static uint64_t primaries[DEVICES_MAX];
static _Atomic uint64_t next_id = 1;
_Atomic _Bool contexts_created;

static inline uint64_t top(const struct stack *of) {
  return of->depth ? of->handles[of->depth - 1] : 0;
}

uint64_t context_current_handle(void) { return top(&stack); }

// Contexts that were dropped so far.
static _Atomic uint64_t drops;

static __attribute__((noinline)) struct context *find_current(struct stack *own, uint64_t dropped) {
  own->found.drops = dropped;
  own->found.handle = top(own);
  own->found.context =
      own->found.handle ? handle_object(WIRE_KIND_CONTEXT, own->found.handle) : NULL;
  return own->found.context;
}

// Of every call, sometimes twice.
struct context *context_current(void) {
  struct stack *const own = &stack;
  const uint64_t dropped = atomic_load_explicit(&drops, memory_order_acquire);
  return top(own) == own->found.handle && dropped == own->found.drops ? own->found.context
                                                                      : find_current(own, dropped);
}

CUresult context_unusable(void) {
  if (!stack.depth) return CUDA_ERROR_INVALID_CONTEXT;
  const struct context *context = context_current();
  return !context || context->inactive ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

_Bool context_is_inactive(uint64_t handle) {
  const struct context *context = handle_peek(WIRE_KIND_CONTEXT, handle);
  return !context || context->inactive;
}

static CUcontext as_driver(uint64_t handle) { return (CUcontext)(uintptr_t)handle; }

struct context *context_find(CUcontext context) {
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

void context_drop(uint64_t handle) {
  if (context_current_handle() == handle) stack.depth--;
  abi_storage_drop(as_driver(handle));
  struct context *context = handle_retire(WIRE_KIND_CONTEXT, handle);
  atomic_fetch_add(&drops, 1);
  free(context);
  handle_recycle(WIRE_KIND_CONTEXT, handle);
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

CUresult guest_cuCtxAttach(CUcontext *pctx, unsigned int flags) {
  struct context *context = context_current();
  if (!context) return context_missing(NULL);
  if (!pctx || flags) return CUDA_ERROR_INVALID_VALUE;
  if (context->primary) return CUDA_ERROR_INVALID_CONTEXT;  // those are retained
  atomic_fetch_add(&context->attached, 1);
  *pctx = as_driver(context_current_handle());
  return CUDA_SUCCESS;
}

// ---- the current one ---------------------------------------------------------------------------

CUresult guest_cuCtxPushCurrent_v2(CUcontext ctx) {
  if (!context_find(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
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
  if (!context_find(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.depth) stack.depth = 1;
  stack.handles[stack.depth - 1] = handle_of(ctx);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetCurrent(CUcontext *pctx) {
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  *pctx = as_driver(context_current_handle());
  return CUDA_SUCCESS;
}

struct context *context_given(CUcontext ctx) {
  return ctx ? context_find(ctx) : context_current();
}

CUresult guest_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
  struct context *context = context_given(ctx);
  if (!context) return context_missing(ctx);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetDevice(CUdevice *device) { return guest_cuCtxGetDevice_v2(device, NULL); }

CUresult guest_cuCtxGetFlags(unsigned int *flags) {
  struct context *context = context_current();
  if (!context) return context_missing(NULL);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxSetFlags(unsigned int flags) {
  struct context *context = context_current();
  if (!context) return context_missing(NULL);
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
  struct context *context = context_given(ctx);
  if (!context) return context_missing(ctx);
  if (context->inactive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (!ctxId) return CUDA_ERROR_INVALID_VALUE;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
  struct context *context = context_given(ctx);
  if (!context) return context_missing(ctx);
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  // The runtime takes this call to see whether a primary context has been reset.
  if (context->inactive) return CUDA_ERROR_INVALID_CONTEXT;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
  struct context *context = context_current();
  if (!context) return context_missing(NULL);
  device_priorities(context->device, leastPriority, greatestPriority);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
  struct context *context = context_current();
  if (!context) return context_missing(NULL);
  if (!pconfig) return CUDA_ERROR_INVALID_VALUE;
  *pconfig = context->cache_config;
  return CUDA_SUCCESS;
}

// Cache preferences are hints: kept, so that reading them back gives what was set.
CUresult guest_cuCtxSetCacheConfig(CUfunc_cache config) {
  struct context *context = context_current();
  if (!context) return context_missing(NULL);
  if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  context->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
  if (!pConfig) return CUDA_ERROR_INVALID_VALUE;
  *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxSetSharedMemConfig(CUsharedconfig config) {
  // Banks have one width on all devices of today: the call is heard and ignored.
  return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
}

CUresult guest_cuCtxResetPersistingL2Cache(void) { return CUDA_SUCCESS; }

CUresult guest_cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
  struct context *context = context_current();
  if (!context) return context_missing(NULL);
  if (!pvalue || (unsigned)limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  return device_limit(context->device, limit, pvalue);
}
