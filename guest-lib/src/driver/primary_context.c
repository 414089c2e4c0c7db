// Entry points: the primary contexts of the devices, and what a reset of one ends.
#include <pthread.h>

#include "abi_storage.h"
#include "arrays/array.h"
#include "arrays/texture.h"
#include "driver/primary_context.h"
#include "exec/exec.h"
#include "guest_calls.h"
#include "kernels/module.h"
#include "kernels/reference.h"
#include "memory/memory.h"
#include "memory/peer.h"
#include "pages/page_variables.h"
#include "session/context.h"
#include "session/device.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/event.h"
#include "streams/host_function.h"
#include "streams/stream.h"
#include "wire/answer.h"
#include "wire/enter.h"
#include "wire/order.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards retain counts

static CUcontext primary(int device) { return (CUcontext)(uintptr_t)context_primary(device); }

// Everything the session has on the server is released; every handle but contexts ends.
static CUresult reset(int device) {
  struct session *session = session_of_device(device);
  session_use(session);
  // Functions of the program are called first; the server would wait for them and hear nothing.
  if (host_functions_may_come()) context_synchronize(session);
  host_function_drain();
  peer_reset(session);
  pages_leave_session(session);
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_ContextReset(session, &answer);
  answer_free(&answer);
  if (guest_is_lost()) return result;
  result = (CUresult)answer.result;  // errors of work before the reset die with the context
  stream_forget_all(session);
  event_forget_all(session);
  module_forget_all(session);
  exec_forget_all(session);
  texture_forget_all(session);
  reference_destroy_of(session, 0);
  array_forget_all(session);
  host_function_forget_all(session);
  memory_forget_all(session);
  device_forget_limits(device);
  abi_storage_drop(primary(device));
  guest_clear_errors(session);
  context_settled(session, answer.sequence);
  return result;
}

// The program may have something in a context that is of no thread now, or of one that it has
// created; what was in one that it has released or reset is gone for it.
static void note_usable(uint64_t handle, void *object, void *why) {
  (void)handle;
  const struct context *context = object;
  if (!context->primary)
    *(const char **)why = "a context that the program has created is not destroyed";
  else if (context->retained && !context->inactive)
    *(const char **)why = "the primary context is in use";
}

static void note_memory(uint64_t handle, void *object, void *why) {
  (void)handle, (void)object;
  *(const char **)why = "memory of cuMemCreate is not released";
}

const char *primary_contexts_leave(const char *(*then)(void)) {
  const char *why = NULL;
  pthread_mutex_lock(&lock);
  handle_each(sessions, WIRE_KIND_CONTEXT, note_usable, &why);
  if (!why) handle_each(sessions, WIRE_KIND_MEMORY, note_memory, &why);
  for (int device = 0; device < device_count() && !why; device++) {
    reset(device);
    if (!guest_is_lost()) context_find(primary(device))->was_released = 0;
  }
  if (!why) why = guest_is_lost() ? "its connection is lost" : then();
  pthread_mutex_unlock(&lock);
  return why;
}

// With the lock, and a session. What happens to that while nobody has the lock is seen to here.
static CUresult lock_attached(void) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  while (!result && guest_is_released()) {
    pthread_mutex_unlock(&lock);
    result = guest_check(NEEDS_INIT);
    pthread_mutex_lock(&lock);
  }
  return result;
}

// With the lock held.
static void set_inactive(struct context *context, _Bool inactive) {
  context->inactive = inactive;
  _Bool some = 0;
  for (int i = 0; i < device_count(); i++) some |= context_find(primary(i))->inactive;
  guest_watch_contexts(some);
}

CUresult guest_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  struct context *context = context_find(primary(dev));
  CUresult result = lock_attached();
  if (!result && context->was_released) result = reset(dev);
  if (!result) {
    context->was_released = 0;
    context->retained++;
    set_inactive(context, 0);
  }
  pthread_mutex_unlock(&lock);
  if (!result) *pctx = primary(dev);
  return result;
}

CUresult guest_cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  struct context *context = context_find(primary(dev));
  pthread_mutex_lock(&lock);
  CUresult result = context->retained ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  // The last release destroys what the context has. Programs do that when they exit, and the end
  // of the connection does it for them, so nothing is sent before somebody comes back.
  if (!result && --context->retained == 0) {
    context->was_released = 1;
    set_inactive(context, 1);
    // But nobody opens any of it from now on.
    memory_unname_all(session_of_device(dev));
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult guest_cuDevicePrimaryCtxRelease(CUdevice dev) {
  return guest_cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult guest_cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  struct context *context = context_find(primary(dev));
  CUresult result = lock_attached();
  if (!result) {
    context->was_released = 0;
    result = reset(dev);
  }
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
  struct context *context = context_find(primary(dev));
  *flags = context->flags;
  *active = context->retained > 0 && !context->inactive;
  return CUDA_SUCCESS;
}

CUresult guest_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  context_find(primary(dev))->flags = flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return guest_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}
