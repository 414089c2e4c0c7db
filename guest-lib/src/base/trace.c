#include "base/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi_lookup.h"
#include "base/call.h"
#include "base/watch.h"
#include "guest_calls.h"
#include "setup/environment.h"
#include "setup/log.h"
#include "setup/size.h"

#define OPS_MAX 2048
#define PUSHES_MAX 16

// Until the first call nobody has looked at the environment.
static struct trace_ring undecided;
static struct trace_ring ring;
struct trace_ring *_Atomic guest_trace = &undecided;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of what follows, and of adding strings
static char problem[512];
static char wrong_size[128];
static uint32_t op_names[OPS_MAX];
static uint32_t push_names[PUSHES_MAX];
static uint32_t step_names[STEP_COUNT];
static _Atomic uint32_t entry_names[ABI_ENTRY_COUNT];

// Of a thread: the kernel's number of it, and what the call that it is in has posted.
static __thread struct {
  uint32_t thread;
  uint16_t op;
  uint64_t first, last;
} mine;

static uint32_t thread_number(void) {
  if (!mine.thread) mine.thread = (uint32_t)syscall(SYS_gettid);
  return mine.thread;
}

// ---- opening -----------------------------------------------------------------------------------

static uint32_t string(const char *text) { return trace_ring_string(&ring, text, strlen(text)); }

static void add_names(void) {
  // Calls come first: the number of a call's name is the call's own, and one.
  for (int i = 0; i < CALL_COUNT; i++) string(call_names[i]);
#define ADD(id, name)                                                         \
  _Static_assert((id) < OPS_MAX, "a larger table for the names of commands"); \
  op_names[id] = string(#name);
  WIRE_OPS(ADD)
#undef ADD
  static const struct {
    uint16_t op;
    const char *name;
  } pushes[] = {{WIRE_REPLY, "reply"},   {WIRE_DATA, "data"}, {WIRE_IDLE, "idle"},
                {WIRE_OUTPUT, "output"}, {WIRE_DONE, "done"}, {WIRE_FAULT, "fault"},
                {WIRE_END, "end"},       {WIRE_CALL, "call"}, {WIRE_ERRORS, "errors"},
                {WIRE_PASSED, "passed"}};
  for (unsigned i = 0; i < sizeof pushes / sizeof *pushes; i++)
    push_names[pushes[i].op - WIRE_REPLY] = string(pushes[i].name);
  static const char *const steps[STEP_COUNT] = {"connect", "hello", "queued", "welcome", "refused"};
  for (int i = 0; i < STEP_COUNT; i++) step_names[i] = string(steps[i]);
}

// %p stands for the number of the process.
static void expand(char *path, size_t size, const char *pattern) {
  size_t used = 0;
  for (; *pattern && used < size - 1; pattern++) {
    if (pattern[0] == '%' && pattern[1] == 'p') {
      int digits = snprintf(path + used, size - used, "%d", (int)getpid());
      used += digits < 0 ? 0 : (size_t)digits;
      if (used >= size) used = size - 1;
      pattern++;
    } else {
      path[used++] = *pattern;
    }
  }
  path[used] = 0;
}

static uint64_t wanted_size(void) {
  const char *value = environment("OUTBOARD_TRACE_SIZE");
  if (!value) return TRACE_BYTES_DEFAULT;
  uint64_t bytes;
  if (!size_read(value, &bytes) || bytes < TRACE_BYTES_LEAST || bytes > TRACE_BYTES_MOST) {
    snprintf(wrong_size, sizeof wrong_size, "%s", value);
    return TRACE_BYTES_DEFAULT;
  }
  return bytes;
}

// A child writes a file of its own, if it makes calls at all. The ring's memory stays mapped: the
// fork may have come from a signal handler, in the middle of a record.
static void in_child(void) {
  if (atomic_load(&guest_trace) == &ring) close(ring.fd);
  atomic_store(&guest_trace, &undecided);
  watch_again();
  static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
  lock = unlocked;
  mine.thread = 0;
  for (int i = 0; i < ABI_ENTRY_COUNT; i++) atomic_store(&entry_names[i], TRACE_NO_NAME);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

static void open_ring(const char *pattern) {
  char path[4096], other[4096 + 16];
  expand(path, sizeof path, pattern);
  uint64_t size = wanted_size();
  int error = trace_ring_open(&ring, path, size, TRACE_GUEST);
  if (error == EBUSY) {  // a parent writes it, or a sister
    snprintf(other, sizeof other, "%s.%d", path, (int)getpid());
    error = trace_ring_open(&ring, other, size, TRACE_GUEST);
  }
  if (error)
    snprintf(problem, sizeof problem, "%s", strerror(error));
  else
    add_names();
}

_Bool trace_decide(void) {
  if (atomic_load(&guest_trace) != &undecided) return trace_on();
  const char *pattern = environment("OUTBOARD_TRACE");
  if (!pattern) {
    struct trace_ring *before = &undecided;
    atomic_compare_exchange_strong(&guest_trace, &before, NULL);
    return 0;
  }
  int saved = errno;
  // Before the lock: a child that another thread forks off now must not wait for it.
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&lock);
  if (atomic_load(&guest_trace) == &undecided) {
    ring.header = NULL;
    open_ring(pattern);
    atomic_store_explicit(&guest_trace, ring.header ? &ring : NULL, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  errno = saved;
  return trace_on();
}

void trace_report(void) {
  pthread_mutex_lock(&lock);
  if (*problem)
    log_error("OUTBOARD_TRACE=\"%s\": %s: nothing is traced", environment("OUTBOARD_TRACE"),
              problem);
  if (*wrong_size)
    log_error("OUTBOARD_TRACE_SIZE=\"%s\" is not understood: " SIZE_EXPECTED
              ", from 64K to 16G: 64M it is",
              wrong_size);
  *problem = *wrong_size = 0;
  pthread_mutex_unlock(&lock);
}

// The ring, when there is one.
static struct trace_ring *active(void) {
  struct trace_ring *now = atomic_load_explicit(&guest_trace, memory_order_acquire);
  return now == &undecided ? NULL : now;
}

// ---- recording ---------------------------------------------------------------------------------

static void put(struct trace_ring *to, enum trace_kind kind, uint32_t name, uint64_t at,
                uint64_t duration, uint64_t a, uint64_t b, uint64_t c) {
  const struct trace_record record = {.at = at,
                                      .duration = duration,
                                      .kind = (uint16_t)kind,
                                      .thread = thread_number(),
                                      .name = name,
                                      .a = a,
                                      .b = b,
                                      .c = c};
  trace_ring_put(to, &record);
}

static void begin(struct trace_span *span, enum trace_kind kind, uint32_t name, uint64_t a,
                  uint64_t b) {
  span->record = NULL;
  struct trace_ring *to = active();
  if (!to) return;
  span->at = trace_now();
  span->record = trace_ring_claim(to, &span->number);
  if (!span->record) return;
  const struct trace_record what = {.at = span->at,
                                    .duration = TRACE_OPEN,
                                    .kind = (uint16_t)kind,
                                    .thread = thread_number(),
                                    .name = name,
                                    .a = a,
                                    .b = b};
  trace_ring_fill(span->record, &what);
  trace_ring_publish(span->record, span->number);
}

// What began a whole ring ago has been overwritten, and stays so.
static void end(const struct trace_span *span, CUresult result, const uint64_t *posted) {
  if (!span->record) return;
  uint64_t now = trace_now();
  if (!trace_ring_again(span->record, span->number)) return;
  span->record->duration = now > span->at ? now - span->at : 1;
  span->record->result = (int32_t)result;
  if (posted) {
    span->record->a = posted[0];
    span->record->b = posted[1];
  }
  trace_ring_publish(span->record, span->number);
}

void trace_call_begin(struct trace_span *span, int call) {
  mine.first = mine.last = 0;
  begin(span, TRACE_CALL, (uint32_t)call + 1, 0, 0);
}

CUresult trace_call_end(const struct trace_span *span, CUresult result) {
  const uint64_t posted[2] = {mine.first, mine.last};
  end(span, result, posted);
  return result;
}

void trace_unsupported(int entry) {
  if (atomic_load_explicit(&guest_trace, memory_order_acquire) == &undecided) trace_decide();
  struct trace_ring *to = active();
  if (!to) return;
  uint32_t name = atomic_load(&entry_names[entry]);
  if (!name) {
    pthread_mutex_lock(&lock);
    name = atomic_load(&entry_names[entry]);
    if (!name) name = string(abi_entries[entry].name);
    atomic_store(&entry_names[entry], name);
    pthread_mutex_unlock(&lock);
  }
  struct trace_span span;
  begin(&span, TRACE_CALL, name, 0, 0);
  end(&span, CUDA_ERROR_NOT_SUPPORTED, NULL);
}

void trace_posted(uint16_t op, uint64_t sequence) {
  if (!mine.first) mine.first = sequence;
  mine.last = sequence;
  mine.op = op;
}

void trace_sent(uint64_t at, uint64_t bytes, uint64_t first, uint64_t last) {
  struct trace_ring *to = active();
  if (!to) return;
  uint64_t now = trace_now();
  put(to, TRACE_SEND, TRACE_NO_NAME, at, now > at ? now - at : 1, bytes, first, last);
}

void trace_wait_begin(struct trace_span *span, uint64_t request, uint64_t sequence) {
  begin(span, TRACE_WAIT, mine.op < OPS_MAX ? op_names[mine.op] : TRACE_NO_NAME, request, sequence);
}

void trace_wait_end(const struct trace_span *span, CUresult result) { end(span, result, NULL); }

void trace_received(uint16_t op, uint64_t bytes, uint64_t request, uint64_t sequence) {
  struct trace_ring *to = active();
  if (!to) return;
  unsigned push = (unsigned)op - WIRE_REPLY;
  uint32_t name = push < PUSHES_MAX ? push_names[push] : TRACE_NO_NAME;
  put(to, TRACE_RECEIVE, name, trace_now(), 0, bytes, request, sequence);
}

void trace_step_begin(struct trace_span *span, enum trace_step step) {
  begin(span, TRACE_ATTACH, step_names[step], 0, 0);
}

void trace_step_end(const struct trace_span *span, CUresult result) { end(span, result, NULL); }

void trace_step(enum trace_step step, uint64_t detail) {
  struct trace_ring *to = active();
  if (!to) return;
  if (step == STEP_WELCOME) to->header->session = detail;
  put(to, TRACE_ATTACH, step_names[step], trace_now(), 0, detail, 0, 0);
}
