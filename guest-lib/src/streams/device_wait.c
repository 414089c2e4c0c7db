#include "streams/device_wait.h"

#include <stdlib.h>

#include "guest_calls.h"
#include "session/session.h"
#include "streams/host_function.h"
#include "streams/stream.h"

// One stream has to come to where it waits, and the other to what it waits for, in either order.
// Both are steps, which one thread takes one after the other.
struct meeting {
  _Bool open, awaited;
  struct host_step_call waiting;
};

static void wait_step(void *data, struct host_step_call call) {
  struct meeting *meeting = data;
  if (!meeting->open) {
    meeting->awaited = 1;
    meeting->waiting = call;
    return;
  }
  free(meeting);
  host_step_done(call);
}

static void open_step(void *data, struct host_step_call call) {
  struct meeting *meeting = data;
  meeting->open = 1;
  host_step_done(call);
  if (!meeting->awaited) return;
  host_step_done(meeting->waiting);
  free(meeting);
}

// On a stream of its own, so that nothing else waits.
static CUresult open_behind(uint64_t event, struct meeting *meeting) {
  uint64_t stream;
  struct session *session = session_here();
  CUresult result = stream_begin_apart(session, &stream);
  if (result) return result;
  result = put_cuStreamWaitEvent(session, stream, event, 0);
  if (!result) result = host_step(session, stream, open_step, meeting);
  stream_end(stream);
  return result;
}

CUresult device_wait(uint64_t stream, struct session *other, uint64_t event) {
  struct meeting *meeting = calloc(1, sizeof *meeting);
  if (!meeting) return CUDA_ERROR_OUT_OF_MEMORY;
  struct thread_session before = session_switch(other);
  CUresult result = open_behind(event, meeting);
  session_back(before);
  if (result) {
    free(meeting);
    return result;
  }
  return host_step(session_here(), stream, wait_step, meeting);
}
