#include "answer.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "abi_result.h"
#include "batch.h"
#include "connection.h"
#include "decode.h"
#include "enter.h"
#include "event.h"
#include "host_function.h"
#include "log.h"
#include "stats.h"
#include "stream.h"
#include "trace.h"
#include "wire_calls.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct answer *first, **last = &first;  // in the order asked
static _Bool reading;                          // somebody is in recv
static int waiting;                            // threads in pthread_cond_wait
static uint64_t next_request;
static uint64_t outstanding;
_Atomic uint64_t answers_open;
static struct answer *pool;

static struct decode decoder;
static _Bool decoder_ready;

struct answer *answer_take_deferred(void) {
  pthread_mutex_lock(&lock);
  struct answer *answer = pool;
  if (answer) pool = answer->next;
  pthread_mutex_unlock(&lock);
  if (!answer) answer = malloc(sizeof *answer);
  if (answer) answer_init(answer);
  return answer;
}

void answer_give_back(struct answer *answer) {
  pthread_mutex_lock(&lock);
  answer->next = pool;
  pool = answer;
  pthread_mutex_unlock(&lock);
}

void answer_expect(struct answer *answer) {
  answer->next = NULL;
  answer->reply = NULL;
  answer->result = CUDA_SUCCESS;
  answer->done = 0;
  pthread_mutex_lock(&lock);
  answer->request = ++next_request;
  *last = answer;
  last = &answer->next;
  outstanding += answer->deferred;
  answers_open++;
  pthread_mutex_unlock(&lock);
}

uint64_t answer_outstanding(void) {
  pthread_mutex_lock(&lock);
  uint64_t count = outstanding;
  pthread_mutex_unlock(&lock);
  return count;
}

void answer_free(struct answer *answer) {
  if (answer->reply && answer->reply != answer->small) free(answer->reply);
  answer->reply = NULL;
}

// ---- what the decoder calls; each takes the lock for itself ------------------------------------

static struct answer *find(uint64_t request) {
  struct answer *answer = first;
  while (answer && answer->request != request) answer = answer->next;
  return answer;
}

static void unlink_answer(struct answer *answer) {
  struct answer **link = &first;
  while (*link != answer) link = &(*link)->next;
  *link = answer->next;
  if (last == &answer->next) last = link;
}

// With the lock held.
static void finish(struct answer *answer) {
  answers_open--;
  unlink_answer(answer);
  if (answer->deferred) {
    if (answer->result) guest_async_error((CUresult)answer->result);
    answer_free(answer);
    answer->next = pool;
    pool = answer;
    outstanding--;
    return;
  }
  answer->done = 1;
  if (waiting) pthread_cond_broadcast(&changed);
}

static void *on_place(uint64_t request, uint64_t offset, uint64_t length, uint64_t *run) {
  pthread_mutex_lock(&lock);
  struct answer *answer = find(request);
  uint8_t *place = NULL;
  if (answer && answer->destination && offset < answer->destination_size &&
      length <= answer->destination_size - offset) {
    uint64_t row = offset / answer->width, x = offset % answer->width;
    place = answer->destination + row / answer->height * answer->slice +
            row % answer->height * answer->pitch + x;
    *run = length < answer->width - x ? length : answer->width - x;
  }
  if (trace_on() && place) trace_received(WIRE_DATA, length, request, answer->sequence);
  pthread_mutex_unlock(&lock);
  return place;
}

static _Bool on_reply(const struct wire_reply *reply) {
  pthread_mutex_lock(&lock);
  struct answer *answer = find(reply->request);
  if (!answer) {
    pthread_mutex_unlock(&lock);
    return 0;
  }
  uint32_t size = reply->header.size;
  answer->reply = size <= sizeof answer->small ? answer->small : malloc(size);
  if (answer->reply) {
    memcpy(answer->reply, reply, size);
    answer->result = reply->result;
  } else {
    answer->result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (reply->async) guest_async_error((CUresult)reply->async);
  guest_note_result((CUresult)reply->result);
  if (trace_on()) trace_received(WIRE_REPLY, size, reply->request, answer->sequence);
  finish(answer);
  pthread_mutex_unlock(&lock);
  batch_server_idle();
  return 1;
}

static void on_output(uint16_t op, const char *text, uint64_t length) {
  if (trace_on()) trace_received(op, length, 0, 0);
  // Device printf and assertions: where the program's own printf goes, and in order with it.
  FILE *to = op == WIRE_ERRORS ? stderr : stdout;
  fwrite(text, 1, length, to);
  fflush(to);
}

static void on_fault(const struct wire_fault *fault) {
  if (trace_on()) trace_received(WIRE_FAULT, fault->header.size, 0, 0);
  const char *name = "an unknown command";
  switch (fault->op) {
#define NAME(id, text) \
  case id:             \
    name = #text;      \
    break;
    WIRE_OPS(NAME)
#undef NAME
    default:
      break;
  }
  const char *error = abi_result_name(fault->result);
  log_error(
      "%s (posted command %llu) failed on the server: %s (%d). The program is told at its "
      "next synchronisation",
      name, (unsigned long long)fault->sequence, error ? error : "error", fault->result);
}

static void on_finished(const struct wire_done *done) {
  if (trace_on()) trace_received(WIRE_DONE, done->header.size, done->request, 0);
  if (wire_handle_kind(done->handle) == WIRE_KIND_EVENT)
    event_finished(done);
  else
    stream_finished(done);
}

static _Bool on_call(const struct wire_call *call) {
  if (trace_on()) trace_received(WIRE_CALL, call->header.size, 0, 0);
  return host_function_called(call);
}

static void on_end(int32_t result, const char *sentence, uint32_t length) {
  if (trace_on()) trace_received(WIRE_END, length, 0, 0);
  log_error("the server ended the session: %.*s", (int)length, sentence);
  guest_set_lost(result ? (CUresult)result : CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static const struct decode_sink sink = {
    .place = on_place,
    .reply = on_reply,
    .idle = batch_server_idle,
    .output = on_output,
    .finished = on_finished,
    .fault = on_fault,
    .call = on_call,
    .end = on_end,
};

// ---- reading -----------------------------------------------------------------------------------

void answer_lose(CUresult result, const char *why) {
  if (guest_is_child()) return;
  if (!guest_is_lost()) log_error("the connection to the server is lost: %s", why);
  guest_set_lost(result);
  // Whoever reads sees the end of the stream and releases everybody who waits; only the reader may,
  // because it could be writing to a waiter's memory right now.
  shutdown(connection_fd, SHUT_RDWR);
}

// By the thread that has the reading role, without the lock. False at the end of the stream.
static _Bool read_once(int flags) {
  if (!decoder_ready) {
    decode_init(&decoder, &sink);
    decoder_ready = 1;
  }
  size_t size;
  void *place = decode_want(&decoder, &size);
  // After a failure nothing more is welcome; who asked since then is released below.
  ssize_t got = size ? recv(connection_fd, place, size, flags) : 0;
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return 1;
  if (got > 0) {
    uint64_t before = decoder.counted;
    decode_got(&decoder, (size_t)got);
    stats_add(&guest_stats->bytes_received, decoder.counted - before);
    if (!decoder.failure) return 1;
    answer_lose(CUDA_ERROR_DEVICE_UNAVAILABLE, decoder.failure);
  } else if (got < 0 && errno == EFAULT) {
    // What is left of the data has nowhere to go, so the stream is beyond repair.
    answer_lose(CUDA_ERROR_INVALID_VALUE,
                "the destination of a copy from the device is not writable memory");
  } else if (!guest_is_lost()) {
    answer_lose(CUDA_ERROR_DEVICE_UNAVAILABLE, got == 0 ? "the server closed it" : strerror(errno));
  }
  pthread_mutex_lock(&lock);
  while (first) {
    first->result = guest_lost();
    finish(first);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

static void leave_reading(void) {
  pthread_mutex_lock(&lock);
  reading = 0;
  if (waiting) pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  batch_reader_left();
  host_function_reader_left();
}

_Bool answer_is_being_read(void) {
  pthread_mutex_lock(&lock);
  _Bool now = reading;
  pthread_mutex_unlock(&lock);
  return now;
}

CUresult answer_wait(struct answer *answer) {
  pthread_mutex_lock(&lock);
  while (!answer->done) {
    if (reading) {
      waiting++;
      pthread_cond_wait(&changed, &lock);
      waiting--;
      continue;
    }
    reading = 1;
    pthread_mutex_unlock(&lock);
    // Only the reader sets `done`, so no lock is needed to look at it here.
    while (!answer->done && read_once(0)) {
    }
    leave_reading();
    pthread_mutex_lock(&lock);
  }
  pthread_mutex_unlock(&lock);
  return (CUresult)answer->result;
}

_Bool answer_poll(void) {
  pthread_mutex_lock(&lock);
  if (reading) {
    pthread_mutex_unlock(&lock);
    return 0;
  }
  reading = 1;
  pthread_mutex_unlock(&lock);
  read_once(MSG_DONTWAIT);
  leave_reading();
  return 1;
}
