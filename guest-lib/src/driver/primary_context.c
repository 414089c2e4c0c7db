// Entry points: the primary contexts of the devices, and what a reset of one ends.
#include <pthread.h>

#include "abi_storage.h"
#include "arrays/array.h"
#include "arrays/texture.h"
#include "exec/exec.h"
#include "guest_calls.h"
#include "kernels/module.h"
#include "kernels/reference.h"
#include "memory/memory.h"
#include "memory/peer.h"
#include "pages/page_variables.h"
#include "session/context.h"
#include "session/device.h"
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
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_SUCCESS;
  if (context->was_released) result = reset(dev);
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
