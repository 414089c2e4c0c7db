#include "streams/event.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "guest_calls.h"
#include "pages/merged.h"
#include "session/context.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/device_wait.h"
#include "streams/internal.h"
#include "streams/recorder.h"
#include "streams/room.h"
#include "streams/stream.h"
#include "wire/acknowledge.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire/order.h"

struct event {
  _Atomic unsigned references;  // the handle's, until it is destroyed, and those of nodes of graphs
  _Bool gone;                   // the server has it no more
  unsigned resets;              // of the context, when it was made
  uint64_t handle;
  unsigned flags;
  uint64_t context;
  _Atomic uint64_t recorded;  // command that recorded it last; 0: never
  _Atomic uint64_t stream;    // where
  _Atomic uint64_t done;      // the recording with this number is known to be done
  uint64_t watch;             // request of a query that was answered "not ready", or 0
  uint64_t watch_recorded;
  _Atomic uint64_t finished;  // request of the latest query the server reported as done since
};

// Guards `watch` and `watch_recorded`, which belong together.
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

// Others may record it, too, of whom nothing is known here.
static _Bool is_shared(const struct event *event) { return event->flags & CU_EVENT_INTERPROCESS; }

static _Bool is_done(struct session *session, struct event *event) {
  if (is_shared(event)) return 0;
  uint64_t recorded = atomic_load(&event->recorded);
  return recorded == 0 || recorded == atomic_load(&event->done) ||
         stream_has_done(session, atomic_load(&event->stream), recorded);
}

static struct event *find(CUevent handle) {
  struct event *event = handle_object(WIRE_KIND_EVENT, handle_of(handle));
  return event && !guest_context_is_gone(event->context) ? event : NULL;
}

// Only one thread at a time reads what the server says, so nobody else raises `finished`.
static void raise_finished(void *object, void *request) {
  struct event *event = object;
  if (atomic_load(&event->finished) < *(uint64_t *)request)
    atomic_store(&event->finished, *(uint64_t *)request);
}

void event_finished(struct session *session, const struct wire_done *done) {
  (void)session;
  uint64_t request = done->request;
  handle_visit(WIRE_KIND_EVENT, done->handle, raise_finished, &request);
}

static CUresult unref(struct event *event) {
  if (atomic_fetch_sub(&event->references, 1) != 1) return CUDA_SUCCESS;
  uint64_t handle = event->handle;
  struct thread_session before = session_switch(handle_session(WIRE_KIND_EVENT, handle));
  struct session *session = session_here();
  _Bool gone = event->gone || event->resets != session->events_reset;
  CUresult result = gone ? CUDA_SUCCESS : put_cuEventDestroy_v2(session, handle);
  session_back(before);
  handle_recycle(WIRE_KIND_EVENT, handle);
  free(event);
  return result;
}

static CUresult destroy(uint64_t handle, _Bool tell) {
  struct event *event = handle_retire(WIRE_KIND_EVENT, handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (capture_has_events()) recorder->event_ends(handle);
  event->gone = !tell;
  return unref(event);
}

struct event *event_keep(uint64_t handle) {
  struct event *event = handle_object(WIRE_KIND_EVENT, handle);
  if (event) atomic_fetch_add(&event->references, 1);
  return event;
}

void event_let_go(struct event *event) { unref(event); }

static void forget(uint64_t handle, void *object, void *context) {
  uint64_t only = context ? *(uint64_t *)context : 0;
  struct event *event = object;
  if (!only || event->context == only) destroy(handle, only != 0);
}

void event_forget_all(struct session *session) {
  session->events_reset++;
  handle_each(session, WIRE_KIND_EVENT, forget, NULL);
}
void event_destroy_of(struct session *session, uint64_t context) {
  handle_each(session, WIRE_KIND_EVENT, forget, &context);
}

// What may be asked of an event while there are captures.
static CUresult admit(CUevent handle) {
  CUresult result = capture_has_events() ? recorder->check_event(handle_of(handle)) : CUDA_SUCCESS;
  return result ? result : capture_admit_unsafe();
}

uint64_t event_mint(struct session *session, unsigned flags) {
  struct event *event = calloc(1, sizeof *event);
  if (!event) return 0;
  event->references = 1;
  event->resets = session->events_reset;
  event->flags = flags;
  event->context = context_current_handle();
  event->handle = handle_mint(session, WIRE_KIND_EVENT, event);
  uint64_t wire = event->handle;
  if (!wire) free(event);
  return wire;
}

void event_unmint(uint64_t handle) { destroy(handle, 0); }

_Bool event_is(CUevent handle, _Bool *shared) {
  struct event *event = find(handle);
  *shared = event && is_shared(event);
  return event != NULL;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuEventCreate(CUevent *phEvent, unsigned int Flags) {
  const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (!phEvent || Flags & ~known) return CUDA_ERROR_INVALID_VALUE;
  if (Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t wire = event_mint(session_here(), Flags);
  if (!wire) return CUDA_ERROR_OUT_OF_MEMORY;
  *phEvent = (CUevent)(uintptr_t)wire;
  // The program does not wait for it there: the server does, and is to sleep meanwhile.
  return put_cuEventCreate(session_here(), wire, Flags | CU_EVENT_BLOCKING_SYNC);
}

CUresult guest_cuEventDestroy_v2(CUevent hEvent) {
  return find(hEvent) ? destroy(handle_of(hEvent), 1) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult guest_cuEventDestroy(CUevent hEvent) { return guest_cuEventDestroy_v2(hEvent); }

void event_note_recorded(struct event *event, uint64_t stream) {
  // A later command of another thread may count here: it only makes "done" known later.
  atomic_store(&event->stream, stream);
  atomic_store(&event->recorded, stream_last_sequence(session_here(), stream));
}

void event_recorded(CUevent hEvent, uint64_t stream) {
  struct event *event = find(hEvent);
  if (event) event_note_recorded(event, stream);
}

CUresult event_check_untimed(CUevent hEvent) {
  const struct event *event = find(hEvent);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  return event->flags & CU_EVENT_DISABLE_TIMING ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult guest_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags,
                                      int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  struct event *event = find(hEvent);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (event->context != stream_context(wire)) return CUDA_ERROR_INVALID_HANDLE;
  if (capture_active() || capture_has_events() || flags) {
    result = recorder->event_record(handle_of(hEvent), wire, flags);
    if (result != CAPTURE_NONE) return result;
  }
  result = stream_await_room(session_here(), wire);
  if (result) return result;
  result = put_cuEventRecord(session_here(), handle_of(hEvent), wire);
  event_note_recorded(event, wire);
  // When this returns, another process may wait for it and must not find it unrecorded.
  return result || !is_shared(event) ? result : server_acknowledge(session_here());
}

CUresult event_record_all(CUevent hEvent, uint64_t context) {
  struct event *event = find(hEvent);
  if (!event || event->context != context) return CUDA_ERROR_INVALID_HANDLE;
  struct session *session = session_here();
  CUresult result = put_ContextRecord(session, handle_of(hEvent));
  // The event is of no stream in particular, so that what settles one stream says nothing of it.
  atomic_store(&event->stream, BATCH_NO_STREAM);
  atomic_store(&event->recorded, batch_sequence(session));
  return result || !is_shared(event) ? result : server_acknowledge(session);
}

CUresult guest_cuEventRecord(CUevent hEvent, CUstream hStream, int per_thread) {
  return guest_cuEventRecordWithFlags(hEvent, hStream, 0, per_thread);
}

static CUresult wait_for(struct session *session, struct event *event, uint64_t handle) {
  if (is_done(session, event)) return guest_take_async_error(session);
  uint64_t recorded = atomic_load(&event->recorded);
  uint64_t stream = atomic_load(&event->stream);
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_cuEventSynchronize(session, handle, &answer);
  answer_free(&answer);
  if (!result) {
    atomic_store(&event->done, recorded);
    stream_settled(session, stream, recorded);
  }
  return result;
}

CUresult guest_cuEventSynchronize(CUevent hEvent) {
  struct event *event = find(hEvent);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  CUresult refused = admit(hEvent);
  if (refused) return refused;
  pages_will_wait(session_here());
  CUresult result = wait_for(session_here(), event, handle_of(hEvent));
  pages_have_waited(session_here());
  return result;
}

static CUresult query(struct event *event, uint64_t handle) {
  struct session *session = session_here();
  if (is_done(session, event)) return guest_take_async_error(session);
  uint64_t recorded = atomic_load(&event->recorded);
  pthread_mutex_lock(&watch_lock);
  uint64_t watch = event->watch_recorded == recorded ? event->watch : 0;
  pthread_mutex_unlock(&watch_lock);
  if (watch) {
    // The server tells when it is done: no need to ask again.
    answer_poll(session);
    if (atomic_load(&event->finished) < watch) return CUDA_ERROR_NOT_READY;
    atomic_store(&event->done, recorded);
    if (is_shared(event)) {
      // The next question may be about another recording, of another process.
      pthread_mutex_lock(&watch_lock);
      if (event->watch == watch) event->watch = 0;
      pthread_mutex_unlock(&watch_lock);
    }
    return guest_take_async_error(session);
  }
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_cuEventQuery(session, handle, &answer);
  answer_free(&answer);
  if (!result) atomic_store(&event->done, recorded);
  pthread_mutex_lock(&watch_lock);
  event->watch = result == CUDA_ERROR_NOT_READY ? answer.request : 0;
  event->watch_recorded = recorded;
  pthread_mutex_unlock(&watch_lock);
  return result;
}

CUresult guest_cuEventQuery(CUevent hEvent) {
  struct event *event = find(hEvent);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  CUresult refused = admit(hEvent);
  if (refused) return refused;
  CUresult result = query(event, handle_of(hEvent));
  if (result != CUDA_ERROR_NOT_READY) pages_have_waited(session_here());
  return result;
}

CUresult guest_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  struct event *start = find(hStart), *end = find(hEnd);
  if (!start || !end) return CUDA_ERROR_INVALID_HANDLE;
  if (!pMilliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (capture_has_events() &&
      (recorder->check_event(handle_of(hStart)) || recorder->check_event(handle_of(hEnd))))
    return CUDA_ERROR_CAPTURED_EVENT;
  if (!start->recorded || !end->recorded || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
    return CUDA_ERROR_INVALID_HANDLE;
  if (start->context != end->context) return CUDA_ERROR_INVALID_HANDLE;
  struct answer answer;
  answer_init(&answer);
  CUresult result =
      ask_cuEventElapsedTime_v2(session_here(), handle_of(hStart), handle_of(hEnd), &answer);
  if (!result) {
    const struct wire_cuEventElapsedTime_v2_reply *reply = answer.reply;
    *pMilliseconds = reply->pMilliseconds;
  }
  answer_free(&answer);
  return result;
}

CUresult guest_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  return guest_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

// Of another session's event.
static CUresult wait_for_other_device(uint64_t stream, struct session *session, uint64_t handle,
                                      unsigned flags) {
  struct thread_session before = session_switch(session);
  struct event *event = handle_object(WIRE_KIND_EVENT, handle);
  _Bool done = event && is_done(session_here(), event);
  session_back(before);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (capture_active() || capture_has_events() || flags) {
    CUresult captured = recorder->event_wait(stream, handle, flags);
    if (captured != CAPTURE_NONE) return captured;
  }
  if (done) return CUDA_SUCCESS;
  CUresult result = stream_await_room(session_here(), stream);
  return result ? result : device_wait(stream, session, handle);
}

CUresult guest_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags,
                                 int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  struct session *session = session_here();
  struct session *other = handle_session(WIRE_KIND_EVENT, handle_of(hEvent));
  if (sessions_many() && other && other != session)
    return wait_for_other_device(wire, other, handle_of(hEvent), Flags);
  if (!find(hEvent)) return CUDA_ERROR_INVALID_HANDLE;
  if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (capture_active() || capture_has_events() || Flags) {
    result = recorder->event_wait(wire, handle_of(hEvent), Flags);
    if (result != CAPTURE_NONE) return result;
  }
  result = stream_await_room(session, wire);
  return result ? result : put_cuStreamWaitEvent(session, wire, handle_of(hEvent), 0);
}
