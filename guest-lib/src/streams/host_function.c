#include "streams/host_function.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "abi_descriptor.h"
#include "base/thread.h"
#include "base/thread_role.h"
#include "guest_calls.h"
#include "pages/merged.h"
#include "pages/pages.h"
#include "session/session.h"
#include "setup/clock.h"
#include "setup/log.h"
#include "streams/internal.h"
#include "streams/pending.h"
#include "streams/recorder.h"
#include "streams/stream.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire/order.h"

// The server calls no more at once than this, whatever it says.
#define CALLS_MAX (1u << 16)

// A function the server may call, under its place in the table and how often that was used.
struct host_function {
  CUhostFn function;
  CUstreamCallback callback;                             // or this,
  void (*step)(void *data, struct host_step_call call);  // or this, which is not the program's
  CUstream stream;
  void *data;
  uint64_t order;           // of posting
  struct session *session;  // whose server may call it; NULL: a kept one
  uint32_t generation;
  uint32_t next;  // free: the next free place; kept: the next in its bucket
  _Bool live, kept;
};

struct host_call {
  struct host_function what;
  uint64_t number;
  CUresult status;
  struct session *session;  // whose stream waits for it
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // innermost
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;

static struct host_function *functions;  // place 0 is not used
static uint32_t used = 1, room, free_place;
#define BUCKETS 256
static uint32_t buckets[BUCKETS];  // kept functions, by what they are

// Functions that streams have come to, in that order: a ring.
static struct host_call *calls;
static uint32_t calls_room, calls_first, calls_count;
static _Bool calling;  // the thread is in one

static _Atomic uint64_t awaited;  // posted and not called yet
static uint64_t posts;

// The thread, and what ends its wait.
static _Bool started, ended;
static int kick = -1;
static _Atomic _Bool waits_for_reader;

static void wake(void) { eventfd_write(kick, 1); }

void host_function_reader_left(void) {
  if (atomic_load(&waits_for_reader)) wake();
}

// ---- the thread --------------------------------------------------------------------------------

void host_step_done(struct host_step_call call) {
  _Bool before = thread_role.awaited;
  thread_role.awaited = 1;
  // What comes behind it in the stream finds what it has changed.
  _Bool shared = pages_hand_over(call.session);
  thread_role.awaited = before;
  CUresult result = put_HostFunctionDone(call.session, call.number);
  if (shared) pages_handed_over();
  if (result == CUDA_SUCCESS) batch_send(call.session);
}

static void call(const struct host_call *call) {
  const struct host_step_call done = {call->session, call->number, call->status};
  session_use(call->session);
  if (call->what.step) {
    call->what.step(call->what.data, done);
    return;
  }
  thread_role.in_function = 1;
  pages_have_waited(call->session);  // for what its stream has done
  if (call->what.callback)
    call->what.callback(call->what.stream, call->status, call->what.data);
  else
    call->what.function(call->what.data);
  thread_role.in_function = 0;
  host_step_done(done);
}

// Whether the server may have something to say that nobody waits for.
_Bool host_functions_may_come(void) {
  _Bool may = atomic_load(&awaited) != 0;
  for (struct session *session = sessions; session < sessions_end() && !may; session++)
    may = atomic_load(&session->calls_expected_until) > context_settled_sequence(session);
  return may;
}

// Those that nobody else looks at, now and then: what one says tells nothing of another.
static void give_up_silent_sessions(const struct pollfd *polled) {
  static int64_t next_look;  // the thread's
  const int64_t now = clock_ms();
  if (now < next_look) return;
  next_look = now + connection_look_ms();
  for (struct session *session = sessions; session < sessions_end(); session++) {
    const struct pollfd *of = &polled[1 + session->number];
    if (of->fd >= 0 && !of->revents && connection_is_silent(session))
      answer_cut(session, ETIMEDOUT);
  }
}

// Until there is a function to call or something else has changed. No lock held.
static void wait_for_call(void) {
  struct pollfd polled[1 + SESSIONS_MAX] = {{.fd = kick, .events = POLLIN}};
  if (host_functions_may_come()) {
    // Whoever waits for an answer reads for us, too.
    atomic_store(&waits_for_reader, 1);
    _Bool somebody = 0;
    for (struct session *session = sessions; session < sessions_end(); session++) {
      _Bool read = answer_is_being_read(session);
      polled[1 + session->number] =
          (struct pollfd){.fd = read ? -1 : connection_fd(session), .events = POLLIN};
      somebody = somebody || read;
    }
    if (!somebody) atomic_store(&waits_for_reader, 0);
    if (poll(polled, 1 + (nfds_t)session_count, connection_look_ms()) >= 0)
      give_up_silent_sessions(polled);
  } else {
    poll(polled, 1, -1);
  }
  atomic_store(&waits_for_reader, 0);
  if (polled[0].revents) {
    eventfd_t times;
    eventfd_read(kick, &times);
  }
  for (struct session *session = sessions; session < sessions_end(); session++) {
    if (polled[1 + session->number].revents) answer_poll(session);
  }
}

static void free_place_of(uint32_t place) {
  struct host_function *f = &functions[place];
  *f = (struct host_function){.generation = f->generation + 1, .next = free_place};
  free_place = place;
}

// The oldest callback that a stream has not come to is called instead, with this. With the lock
// held.
static _Bool take_oldest_callback(CUresult status, struct host_call *call) {
  uint32_t oldest = 0;
  for (uint32_t place = 1; place < used; place++)
    if (functions[place].live && functions[place].callback &&
        (!oldest || functions[place].order < functions[oldest].order))
      oldest = place;
  if (!oldest) return 0;
  *call = (struct host_call){.what = functions[oldest], .status = status};
  call->session = call->what.session;
  free_place_of(oldest);
  atomic_fetch_sub(&awaited, 1);
  return 1;
}

// The next to be called. When the connection is lost, those that streams had come to by then are
// still called, and callbacks hear of it: somebody may wait for them. With the lock held.
static _Bool take_call(struct host_call *next) {
  if (calls_count) {
    *next = calls[calls_first];
    calls_first = (calls_first + 1) % calls_room;
    calls_count--;
    return 1;
  }
  return guest_is_lost() && take_oldest_callback(guest_lost(), next);
}

static void *caller(void *unused) {
  (void)unused;
  thread_role.awaited = 1;
  pthread_mutex_lock(&lock);
  for (;;) {
    struct host_call next;
    if (!take_call(&next)) {
      if (guest_is_lost()) break;
      pthread_mutex_unlock(&lock);
      wait_for_call();
      pthread_mutex_lock(&lock);
      continue;
    }
    calling = 1;
    pthread_mutex_unlock(&lock);
    call(&next);
    pthread_mutex_lock(&lock);
    calling = 0;
    if (!calls_count) pthread_cond_broadcast(&returned);
  }
  ended = 1;
  pthread_cond_broadcast(&returned);
  pthread_mutex_unlock(&lock);
  return NULL;
}

// With the lock held.
static _Bool start(void) {
  if (started) return 1;
  if (kick < 0) kick = descriptor_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (kick < 0) return 0;
  const int error = thread_start(caller, NULL);
  if (error) {
    log_error("no thread for functions that streams call: %s", strerror(error));
    return 0;
  }
  guest_watch_host_functions();
  return started = 1;
}

// ---- the table ---------------------------------------------------------------------------------

static uint64_t number_of(uint32_t place) {
  return (uint64_t)functions[place].generation << 32 | place;
}

// With the lock held; 0 when there is no memory.
static uint32_t take_place(void) {
  uint32_t place = free_place;
  if (place) {
    free_place = functions[place].next;
    return place;
  }
  if (used >= room) {
    uint32_t wanted = room ? room * 2 : 64;
    struct host_function *grown =
        wanted > room ? realloc(functions, (size_t)wanted * sizeof *functions) : NULL;
    if (!grown) return 0;
    memset(grown + room, 0, (size_t)(wanted - room) * sizeof *functions);
    functions = grown;
    room = wanted;
  }
  return used++;
}

// The number of a new function; 0 when there is no memory or no thread.
static uint64_t add(struct host_function f) {
  uint32_t place = start() ? take_place() : 0;
  if (!place) return 0;
  f.generation = functions[place].generation;
  f.live = 1;
  functions[place] = f;
  return number_of(place);
}

static uint32_t bucket_of(CUhostFn function, void *data) {
  uint64_t mixed =
      ((uint64_t)(uintptr_t)function ^ (uint64_t)(uintptr_t)data << 7) * 0x9e3779b97f4a7c15ull;
  return (uint32_t)(mixed >> 56) % BUCKETS;
}

uint64_t host_function_keep(CUhostFn function, void *data) {
  uint32_t bucket = bucket_of(function, data);
  pthread_mutex_lock(&lock);
  uint32_t place = buckets[bucket];
  while (place && (functions[place].function != function || functions[place].data != data))
    place = functions[place].next;
  uint64_t number = 0;
  if (place) {
    number = number_of(place);
  } else {
    number = add((struct host_function){
        .function = function, .data = data, .kept = 1, .session = NULL, .next = buckets[bucket]});
    if (number) buckets[bucket] = (uint32_t)number;
  }
  pthread_mutex_unlock(&lock);
  return number;
}

void host_function_drop(uint64_t number) {
  uint32_t place = (uint32_t)number;
  pthread_mutex_lock(&lock);
  if (place && place < used && functions[place].live && number_of(place) == number) {
    uint32_t *link = &buckets[bucket_of(functions[place].function, functions[place].data)];
    while (*link && *link != place) link = &functions[*link].next;
    if (*link) *link = functions[place].next;
    free_place_of(place);
  }
  pthread_mutex_unlock(&lock);
}

void host_function_expect(struct session *session, uint64_t sequence) {
  _Atomic uint64_t *until = &session->calls_expected_until;
  uint64_t now = atomic_load(until);
  while (now < sequence && !atomic_compare_exchange_weak(until, &now, sequence)) {
  }
  wake();
}

// With the lock held.
static _Bool push_call(const struct host_call *call) {
  if (calls_count == calls_room) {
    uint32_t wanted = calls_room ? calls_room * 2 : 16;
    struct host_call *grown = wanted <= CALLS_MAX ? malloc(wanted * sizeof *grown) : NULL;
    if (!grown) return 0;
    for (uint32_t i = 0; i < calls_count; i++) grown[i] = calls[(calls_first + i) % calls_room];
    free(calls);
    calls = grown;
    calls_room = wanted;
    calls_first = 0;
  }
  calls[(calls_first + calls_count++) % calls_room] = *call;
  return 1;
}

_Bool host_function_called(struct session *session, const struct wire_call *said) {
  uint32_t place = (uint32_t)said->function;
  pthread_mutex_lock(&lock);
  const struct host_function *f = place && place < used ? &functions[place] : NULL;
  _Bool known = f && f->live && f->generation == said->function >> 32 &&
                (!f->session || f->session == session);
  if (known) {
    struct host_call call = {*f, said->call, (CUresult)said->status, session};
    known = push_call(&call);
    if (known && !call.what.kept) {
      free_place_of(place);
      atomic_fetch_sub(&awaited, 1);
    }
  }
  pthread_mutex_unlock(&lock);
  if (known) wake();
  return known;
}

void host_function_drain(void) {
  pthread_mutex_lock(&lock);
  while ((calls_count || calling) && !guest_is_lost()) pthread_cond_wait(&returned, &lock);
  pthread_mutex_unlock(&lock);
}

void host_function_forget_all(struct session *session) {
  // Those that graphs keep may be another session's as well; with one there is none.
  const _Bool kept = session_count == 1;
  pthread_mutex_lock(&lock);
  for (uint32_t place = 1; place < used; place++) {
    const struct host_function *f = &functions[place];
    if (!f->live || !(f->session == session || (kept && f->kept))) continue;
    if (!f->kept) atomic_fetch_sub(&awaited, 1);
    free_place_of(place);
  }
  if (kept) memset(buckets, 0, sizeof buckets);
  atomic_store(&session->calls_expected_until, 0);
  pthread_mutex_unlock(&lock);
}

// Whether it was not called: a call that failed takes it back.
static _Bool take_back(uint64_t number) {
  uint32_t place = (uint32_t)number;
  pthread_mutex_lock(&lock);
  _Bool live = functions[place].live && number_of(place) == number;
  if (live) {
    free_place_of(place);
    atomic_fetch_sub(&awaited, 1);
  }
  pthread_mutex_unlock(&lock);
  return live;
}

// The command that puts a function on a stream.
struct posting {
  struct session *session;
  uint64_t stream;
  enum wire_function kind;
};

static CUresult put_function(uint64_t number, void *data) {
  const struct posting *posting = data;
  return put_HostFunction(posting->session, posting->stream, number, posting->kind);
}

// Puts a function on a stream of a session, by `put`.
static CUresult post_by(struct session *session, struct host_function f,
                        CUresult (*put)(uint64_t number, void *data), void *data) {
  f.session = session;
  pthread_mutex_lock(&lock);
  const _Bool late = ended;
  f.order = ++posts;
  uint64_t number = late ? 0 : add(f);
  if (number) atomic_fetch_add(&awaited, 1);
  pthread_mutex_unlock(&lock);
  if (!number) return late ? guest_lost() : CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = put(number, data);
  // What has heard of the loss by now was put there.
  if (result && !take_back(number)) result = CUDA_SUCCESS;
  if (atomic_load(&awaited) == 1) wake();  // else it reads already
  return result;
}

static CUresult post(struct session *session, struct host_function f, uint64_t stream,
                     enum wire_function kind) {
  struct posting posting = {session, stream, kind};
  return post_by(session, f, put_function, &posting);
}

CUresult host_step_put(struct session *session,
                       void (*take)(void *data, struct host_step_call call), void *data,
                       CUresult (*put)(uint64_t number, void *data)) {
  return post_by(session, (struct host_function){.step = take, .data = data}, put, data);
}

CUresult host_step(struct session *session, uint64_t stream,
                   void (*take)(void *data, struct host_step_call call), void *data) {
  CUresult result =
      post(session, (struct host_function){.step = take, .data = data}, stream, WIRE_FUNCTION_STEP);
  pending_note(session, stream);
  return result;
}

CUresult host_function_post(struct session *session, uint64_t stream, CUhostFn function,
                            void *data) {
  return post(session, (struct host_function){.function = function, .data = data}, stream,
              WIRE_FUNCTION_ONCE);
}

// ---- entry points ------------------------------------------------------------------------------

static CUresult launch(struct host_function f, CUstream stream, int per_thread,
                       enum wire_function kind) {
  uint64_t wire;
  CUresult result = stream_for_work(stream, per_thread, &wire);
  if (result) return result;
  if (!f.function && !f.callback) return CUDA_ERROR_INVALID_VALUE;
  if (capture_active()) {
    // A node of a graph would have no stream to tell a callback of.
    result = f.callback ? recorder->check_wait(wire) : recorder->host(wire, f.function, f.data);
    if (result != (f.callback ? CUDA_SUCCESS : CAPTURE_NONE)) return result;
  }
  struct session *session = session_here();
  result = post(session, f, wire, kind);
  pending_note(session, wire);
  return result;
}

CUresult guest_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData, int per_thread) {
  return launch((struct host_function){.function = fn, .data = userData}, hStream, per_thread,
                WIRE_FUNCTION_ONCE);
}

// How the thread that calls waits for it is a hint, and not one that can be followed: it waits for
// the server.
CUresult guest_cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData,
                                   unsigned int syncMode, int per_thread) {
  if (syncMode > CU_HOST_TASK_SPINWAIT) fn = NULL;
  return guest_cuLaunchHostFunc(hStream, fn, userData, per_thread);
}

CUresult guest_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                   unsigned int flags, int per_thread) {
  if (flags) callback = NULL;
  return launch((struct host_function){.callback = callback, .stream = hStream, .data = userData},
                hStream, per_thread, WIRE_FUNCTION_CALLBACK);
}
