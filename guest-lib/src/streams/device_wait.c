#include "streams/device_wait.h"

#include <stdlib.h>

#include "guest_calls.h"
#include "session/session.h"
#include "streams/host_function.h"
#include "streams/stream.h"

// One stream has to come to where it waits, and the other to what it waits for, in either order.
// Both are steps, which one thread takes one after the other.
struct gate {
  _Bool open, awaited;
  struct host_step_call waiting;
};

static void wait_step(void *data, struct host_step_call call) {
  struct gate *gate = data;
  if (!gate->open) {
    gate->awaited = 1;
    gate->waiting = call;
    return;
  }
  free(gate);
  host_step_done(call);
}

static void open_step(void *data, struct host_step_call call) {
  struct gate *gate = data;
  gate->open = 1;
  host_step_done(call);
  if (!gate->awaited) return;
  host_step_done(gate->waiting);
  free(gate);
}

// On a stream of its own, so that nothing else waits.
static CUresult open_behind(uint64_t event, struct gate *gate) {
  uint64_t stream;
  struct session *session = session_here();
  CUresult result = stream_begin_apart(session, &stream);
  if (result) return result;
  result = put_cuStreamWaitEvent(session, stream, event, 0);
  if (!result) result = host_step(session, stream, open_step, gate);
  stream_end(stream);
  return result;
}

CUresult device_wait(uint64_t stream, struct session *other, uint64_t event) {
  struct gate *gate = calloc(1, sizeof *gate);
  if (!gate) return CUDA_ERROR_OUT_OF_MEMORY;
  struct thread_session before = session_switch(other);
  CUresult result = open_behind(event, gate);
  session_back(before);
  if (result) {
    free(gate);
    return result;
  }
  return host_step(session_here(), stream, wait_step, gate);
}
