#include "wire/answer.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "abi_result.h"
#include "base/notice.h"
#include "base/stats.h"
#include "base/trace.h"
#include "session/session.h"
#include "setup/log.h"
#include "wire/batch.h"
#include "wire/comeback.h"
#include "wire/connection.h"
#include "wire/decode.h"
#include "wire/enter.h"
#include "wire/order.h"
#include "wire/region.h"
#include "wire_calls.h"

struct inbox {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct answer *first, **last;  // in the order asked; `last` NULL: none was ever asked
  _Bool reading;                 // somebody is in recv
  _Bool cut;                     // there is nothing to read, until answer_read_on
  int waiting;                   // threads in pthread_cond_wait
  uint64_t next_request;
  uint64_t outstanding;
  struct answer *pool;
  struct decode decoder;
};

static const struct decode_sink sink;

_Bool inbox_make(struct session *session) {
  if (session->inbox) return 1;
  struct inbox *inbox = malloc(sizeof *inbox);
  if (!inbox) return 0;
  // The decoder's buffer is left alone: what was never written costs no memory.
  memset(inbox, 0, offsetof(struct inbox, decoder));
  pthread_mutex_init(&inbox->lock, NULL);
  pthread_cond_init(&inbox->changed, NULL);
  decode_init(&inbox->decoder, &sink, session);
  session->inbox = inbox;
  return 1;
}

static void deaf_to_event(struct session *session, const struct wire_done *done) {
  (void)session, (void)done;
}
static _Bool deaf_to_call(struct session *session, const struct wire_call *call) {
  (void)session, (void)call;
  return 0;
}
static void deaf_to_reader(void) {}
static const struct answer_listener nobody = {deaf_to_event, deaf_to_call, deaf_to_reader};
static const struct answer_listener *listener = &nobody;

void answer_listen(const struct answer_listener *by) { listener = by; }

struct answer *answer_take_deferred(struct session *session) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  struct answer *answer = inbox->pool;
  if (answer) inbox->pool = answer->next;
  pthread_mutex_unlock(&inbox->lock);
  if (!answer) answer = malloc(sizeof *answer);
  if (answer) answer_init(answer);
  return answer;
}

void answer_give_back(struct session *session, struct answer *answer) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  answer->next = inbox->pool;
  inbox->pool = answer;
  pthread_mutex_unlock(&inbox->lock);
}

// With the lock held.
static void expect(struct session *session, struct answer *answer, uint64_t request) {
  struct inbox *inbox = session->inbox;
  answer->next = NULL;
  answer->reply = NULL;
  answer->result = CUDA_SUCCESS;
  answer->done = 0;
  answer->unasked = request >= WIRE_EXPECTED;
  answer->request = request;
  if (!inbox->last) inbox->last = &inbox->first;
  *inbox->last = answer;
  inbox->last = &answer->next;
  session->answers_open += !answer->unasked;
}

void answer_expect(struct session *session, struct answer *answer) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  expect(session, answer, ++inbox->next_request);
  inbox->outstanding += answer->deferred;
  pthread_mutex_unlock(&inbox->lock);
}

void answer_expect_unasked(struct session *session, struct answer *answer, uint64_t request) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  expect(session, answer, request);
  pthread_mutex_unlock(&inbox->lock);
}

uint64_t answer_outstanding(struct session *session) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  uint64_t count = inbox->outstanding;
  pthread_mutex_unlock(&inbox->lock);
  return count;
}

_Bool answer_lands_in(struct session *session, const void *memory, uint64_t size) {
  const uint64_t begin = (uint64_t)(uintptr_t)memory, end = begin + size;
  struct inbox *inbox = session->inbox;
  _Bool found = 0;
  pthread_mutex_lock(&inbox->lock);
  for (const struct answer *a = inbox->first; a && !found; a = a->next) {
    if (!a->deferred || !a->destination_size) continue;
    // From the first byte of the first row to behind the last one of the last.
    const uint64_t rows = a->destination_size / a->width, slices = rows / a->height;
    const uint64_t at = (uint64_t)(uintptr_t)a->destination;
    const uint64_t last = at + (slices - 1) * a->slice + (a->height - 1) * a->pitch + a->width;
    found = at < end && begin < last;
  }
  pthread_mutex_unlock(&inbox->lock);
  return found;
}

void answer_free(struct answer *answer) {
  if (answer->reply && answer->reply != answer->small) free(answer->reply);
  answer->reply = NULL;
}

// ---- what the decoder calls; each takes the lock for itself ------------------------------------

static struct answer *find(struct inbox *inbox, uint64_t request) {
  struct answer *answer = inbox->first;
  while (answer && answer->request != request) answer = answer->next;
  return answer;
}

static void unlink_answer(struct inbox *inbox, struct answer *answer) {
  struct answer **link = &inbox->first;
  while (*link != answer) link = &(*link)->next;
  *link = answer->next;
  if (inbox->last == &answer->next) inbox->last = link;
}

// With the lock held.
static void finish(struct session *session, struct answer *answer) {
  struct inbox *inbox = session->inbox;
  session->answers_open -= !answer->unasked;
  unlink_answer(inbox, answer);
  if (answer->deferred) {
    if (answer->result) guest_async_error(session, (CUresult)answer->result);
    answer_free(answer);
    answer->next = inbox->pool;
    inbox->pool = answer;
    inbox->outstanding--;
    return;
  }
  answer->done = 1;
  if (inbox->waiting) pthread_cond_broadcast(&inbox->changed);
}

static void *place_for(struct session *session, uint64_t request, uint64_t offset, uint64_t length,
                       uint64_t *run) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  struct answer *answer = find(inbox, request);
  uint8_t *place = NULL;
  if (answer && answer->destination && offset < answer->destination_size &&
      length <= answer->destination_size - offset) {
    uint64_t row = offset / answer->width, x = offset % answer->width;
    place = answer->destination + row / answer->height * answer->slice +
            row % answer->height * answer->pitch + x;
    *run = length < answer->width - x ? length : answer->width - x;
  }
  if (trace_on() && place) trace_received(WIRE_DATA, length, request, answer->sequence);
  pthread_mutex_unlock(&inbox->lock);
  return place;
}

static void on_unwritable(struct session *session, uint64_t request) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  struct answer *answer = find(inbox, request);
  if (answer && !answer->result) {
    log_error("the destination of a copy from the device is not writable memory");
    answer->result = CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_unlock(&inbox->lock);
}

static _Bool take_from_region(struct session *session, const struct wire_placed *placed) {
  const unsigned char *from = region_placed(session, placed);
  if (!from) return 0;
  for (uint64_t done = 0, run; done < placed->length; done += run) {
    void *to =
        place_for(session, placed->request, placed->offset + done, placed->length - done, &run);
    if (!to) return 0;
    if (!decode_copy(to, from + done, run, run)) on_unwritable(session, placed->request);
  }
  region_took(session, placed->slot);
  return 1;
}

static _Bool on_reply(struct session *session, const struct wire_reply *reply) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  struct answer *answer = find(inbox, reply->request);
  if (!answer) {
    pthread_mutex_unlock(&inbox->lock);
    return 0;
  }
  uint32_t size = reply->header.size;
  answer->reply = size <= sizeof answer->small ? answer->small : malloc(size);
  if (answer->reply) {
    memcpy(answer->reply, reply, size);
    if (reply->result) answer->result = reply->result;
  } else {
    answer->result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (reply->async) guest_async_error(session, (CUresult)reply->async);
  guest_note_result(session, (CUresult)reply->result);
  if (trace_on()) trace_received(WIRE_REPLY, size, reply->request, answer->sequence);
  const _Bool unasked = answer->unasked;
  finish(session, answer);
  pthread_mutex_unlock(&inbox->lock);
  if (!unasked) batch_server_idle(session);
  return 1;
}

static void on_output(struct session *session, uint16_t op, const char *text, uint64_t length) {
  (void)session;
  if (trace_on()) trace_received(op, length, 0, 0);
  // Device printf and assertions: where the program's own printf goes, and in order with it.
  FILE *to = op == WIRE_ERRORS ? stderr : stdout;
  fwrite(text, 1, length, to);
  fflush(to);
}

static void on_fault(struct session *session, const struct wire_fault *fault) {
  (void)session;
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
      name, (unsigned long long)fault->posted_number, error ? error : "error", fault->result);
}

static void on_finished(struct session *session, const struct wire_done *done) {
  if (trace_on()) trace_received(WIRE_DONE, done->header.size, done->request, 0);
  if (wire_handle_kind(done->handle) == WIRE_KIND_EVENT)
    listener->event_finished(session, done);
  else
    stream_finished(session, done);
}

static void on_passed(struct session *session, const struct wire_passed *passed) {
  if (trace_on()) trace_received(WIRE_PASSED, passed->header.size, 0, 0);
  stream_passed(session, passed);
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  if (inbox->waiting) pthread_cond_broadcast(&inbox->changed);
  pthread_mutex_unlock(&inbox->lock);
}

static _Bool on_call(struct session *session, const struct wire_call *call) {
  if (trace_on()) trace_received(WIRE_CALL, call->header.size, 0, 0);
  return listener->called(session, call);
}

static void on_end(struct session *session, int32_t result, const char *sentence, uint32_t length) {
  (void)session;
  if (trace_on()) trace_received(WIRE_END, length, 0, 0);
  notice(LOG_ERROR, "the server ended the session: %.*s", (int)length, sentence);
  guest_set_lost(result ? (CUresult)result : CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static const struct decode_sink sink = {
    .place = place_for,
    .unwritable = on_unwritable,
    .placed = take_from_region,
    .reply = on_reply,
    .idle = batch_server_idle,
    .output = on_output,
    .finished = on_finished,
    .passed = on_passed,
    .fault = on_fault,
    .call = on_call,
    .end = on_end,
};

// ---- reading -----------------------------------------------------------------------------------

void answer_give_up(CUresult result, const char *why) {
  if (guest_is_child()) return;
  if (!guest_is_lost()) notice(LOG_ERROR, "the connection to the server is lost: %s", why);
  guest_set_lost(result);
  // Whoever reads sees the end of the stream and releases everybody who waits; only the reader may,
  // because it could be writing to a waiter's memory right now. Other sessions end as well: what
  // one session's server has begun may wait for another's.
  connection_shut_down();
}

const char *why_lost(int error) {
  switch (error) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
      return "the network in between is gone, or the server's machine is: nothing comes back";
    case EBADMSG:
      return "what comes is damaged";
    default:
      return strerror(error);
  }
}

// By the thread that has the reading role, without the lock. False at the end of the stream.
static _Bool read_once(struct session *session, int flags) {
  struct inbox *inbox = session->inbox;
  // After a failure nothing more is welcome; who asked since then is released below.
  ssize_t got = connection_receive(session, &inbox->decoder, flags);
  if (got < 0 && errno == EAGAIN && !(flags & MSG_DONTWAIT) && connection_is_silent(session))
    errno = ETIMEDOUT;
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return 1;
  if (got > 0) {
    uint64_t before = inbox->decoder.counted;
    decode_got(&inbox->decoder, (size_t)got);
    stats_add(&guest_stats->bytes_received, inbox->decoder.counted - before);
    if (!inbox->decoder.failure) return 1;
    answer_give_up(CUDA_ERROR_DEVICE_UNAVAILABLE, inbox->decoder.failure);
  } else if (got < 0 && errno == EFAULT) {
    decode_unwritable(&inbox->decoder);
    return 1;
  } else if (!guest_is_lost()) {
    if (comeback_cut(session)) {
      pthread_mutex_lock(&inbox->lock);
      inbox->cut = 1;
      pthread_mutex_unlock(&inbox->lock);
      return 0;
    }
    answer_give_up(CUDA_ERROR_DEVICE_UNAVAILABLE,
                   got == 0 ? "the server closed it" : why_lost(errno));
  }
  pthread_mutex_lock(&inbox->lock);
  while (inbox->first) {
    inbox->first->result = guest_lost();
    finish(session, inbox->first);
  }
  pthread_mutex_unlock(&inbox->lock);
  return 0;
}

static void leave_reading(struct session *session) {
  struct inbox *inbox = session->inbox;
  while (connection_has_more(session) && read_once(session, MSG_DONTWAIT)) {
  }
  pthread_mutex_lock(&inbox->lock);
  inbox->reading = 0;
  if (inbox->waiting) pthread_cond_broadcast(&inbox->changed);
  pthread_mutex_unlock(&inbox->lock);
  batch_reader_left(session);
  listener->reader_left();
}

_Bool answer_release(struct session *session) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  const _Bool free = !inbox->reading && !session->answers_open;
  if (free) inbox->reading = 1;
  pthread_mutex_unlock(&inbox->lock);
  return free;
}

void answer_begin_anew(struct session *session) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  // What nobody has asked for, of the session that was.
  while (inbox->first) {
    inbox->first->result = CUDA_ERROR_DEVICE_UNAVAILABLE;
    finish(session, inbox->first);
  }
  decode_init(&inbox->decoder, &sink, session);
  pthread_mutex_unlock(&inbox->lock);
}

void answer_read_out(struct session *session) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  while (inbox->reading) {
    inbox->waiting++;
    pthread_cond_wait(&inbox->changed, &inbox->lock);
    inbox->waiting--;
  }
  inbox->reading = 1;
  pthread_mutex_unlock(&inbox->lock);
  while (read_once(session, 0)) {
  }
}

void answer_read_on(struct session *session) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  inbox->cut = 0;
  pthread_mutex_unlock(&inbox->lock);
  leave_reading(session);
}

void answer_cut(struct session *session, int error) {
  if (!comeback_cut(session)) answer_give_up(CUDA_ERROR_DEVICE_UNAVAILABLE, why_lost(error));
}

void answer_read_again(struct session *session) { leave_reading(session); }

_Bool answer_is_being_read(struct session *session) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  _Bool now = inbox->reading || inbox->cut;
  pthread_mutex_unlock(&inbox->lock);
  return now;
}

// Reads the socket until `there`, or waits for another thread that reads it. What makes it true is
// read from the socket; who reads broadcasts `changed`.
static inline void read_until(struct session *session, _Bool (*there)(const void *what),
                              const void *what) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  while (!there(what)) {
    if (inbox->reading || inbox->cut) {
      inbox->waiting++;
      pthread_cond_wait(&inbox->changed, &inbox->lock);
      inbox->waiting--;
      continue;
    }
    inbox->reading = 1;
    pthread_mutex_unlock(&inbox->lock);
    // Only the reader makes it true, so no lock is needed to look here.
    while (!there(what) && read_once(session, 0) && !region_owes(session)) {
    }
    leave_reading(session);
    if (region_owes(session)) {
      region_give_back(session);
      batch_send(session);
    }
    pthread_mutex_lock(&inbox->lock);
  }
  pthread_mutex_unlock(&inbox->lock);
}

static _Bool is_answered(const void *answer) { return ((const struct answer *)answer)->done; }

CUresult answer_wait(struct session *session, struct answer *answer) {
  read_until(session, is_answered, answer);
  return (CUresult)answer->result;
}

void answer_read_until(struct session *session, _Bool (*there)(const void *what),
                       const void *what) {
  read_until(session, there, what);
}

_Bool answer_poll(struct session *session) {
  struct inbox *inbox = session->inbox;
  pthread_mutex_lock(&inbox->lock);
  if (inbox->reading || inbox->cut) {
    pthread_mutex_unlock(&inbox->lock);
    return 0;
  }
  inbox->reading = 1;
  pthread_mutex_unlock(&inbox->lock);
  read_once(session, MSG_DONTWAIT);
  leave_reading(session);
  return 1;
}
