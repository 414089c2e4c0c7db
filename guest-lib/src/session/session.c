#include "session/session.h"

#include <stdatomic.h>

#include "session/context.h"
#include "session/handle.h"
#include "setup/log.h"

int session_count = 1;
#define SESSION(n) \
  { .number = n, .upload_cache_from = UINT64_MAX }
struct session sessions[SESSIONS_MAX] = {SESSION(0), SESSION(1), SESSION(2), SESSION(3),
                                         SESSION(4), SESSION(5), SESSION(6), SESSION(7)};
_Static_assert(SESSIONS_MAX == 8, "each session has its number");
__thread struct thread_session thread_session = {.session = sessions};

struct session *session_of_device(int device) {
  return sessions_many() && device_exists(device) ? device_get(device)->session : sessions;
}

int device_of_session(struct session *session) {
  for (int device = 0; sessions_many() && device < device_count(); device++)
    if (device_get(device)->session == session) return device;
  return 0;
}

int device_here(void) {
  if (sessions_many()) return device_of_session(session_here());
  const struct context *context = context_current();
  return context ? context->device : 0;
}

struct session *session_of_context(uint64_t handle) {
  const struct context *context =
      sessions_many() && handle ? handle_object(WIRE_KIND_CONTEXT, handle) : NULL;
  return context ? session_of_device(context->device) : sessions;
}

void session_begin_call(void) {
  thread_session = (struct thread_session){session_of_context(context_current_handle()), 0, 0};
}

CUresult session_refusal(void) {
  if (!thread_session.crossed) return CUDA_SUCCESS;
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&said))
    log_warn(
        "a call was given handles or memory of two devices, which have nothing in common: it is "
        "refused (said once)");
  return thread_session.crossed;
}
