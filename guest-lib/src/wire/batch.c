#include "wire/batch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/ablation.h"
#include "base/stats.h"
#include "base/trace.h"
#include "base/watch.h"
#include "session/lane.h"
#include "setup/log.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire/order.h"

// Two buffers: one is filled while the other is being sent.
static struct outbox {
  pthread_mutex_t send_lock, lock;
  pthread_cond_t sender_wanted;
  int filling;
  size_t filled;
  uint64_t sequence;
  uint64_t sent_sequence;    // of the last command sent; the sender's
  uint64_t traced_sequence;  // of the last one traced
  _Bool sender_asleep;
  unsigned sender_naps;   // left to it, see nap(): it looks by itself, and is not woken
  uint64_t nap_sequence;  // of the last command when it last looked
  _Bool sender_polling;   // it waits for the server's bytes, not for the condition
  int sender_kick;        // eventfd that ends such a wait
  // Something was sent since the server last said that it has taken everything up.
  _Atomic _Bool in_flight;
  // Mirrors `filled != 0` for readers without the lock.
  _Atomic _Bool pending;
  unsigned char buffers[2][BATCH_BYTES] __attribute__((aligned(64)));
} outboxes[LANES_MAX] = {[0 ... LANES_MAX - 1] = {.send_lock = PTHREAD_MUTEX_INITIALIZER,
                                                  .lock = PTHREAD_MUTEX_INITIALIZER,
                                                  .sender_wanted = PTHREAD_COND_INITIALIZER}};

static struct outbox *here(void) { return &outboxes[lane_here()]; }

uint64_t batch_sequence(void) {
  struct outbox *box = here();
  pthread_mutex_lock(&box->lock);
  uint64_t now = box->sequence;
  pthread_mutex_unlock(&box->lock);
  return now;
}

// Whether what is filled stays here until the server is idle. Not while somebody waits for an
// answer: the answer may need what another thread has posted since.
static _Bool held_back(const struct outbox *box) {
  return atomic_load(&box->in_flight) && !answers_expected();
}

// With the lock held.
static void wake_sender(struct outbox *box) {
  if (box->sender_asleep) {
    box->sender_asleep = 0;
    pthread_cond_signal(&box->sender_wanted);
  } else if (box->sender_polling && !held_back(box)) {
    box->sender_polling = 0;
    eventfd_write(box->sender_kick, 1);
  }
}

void batch_server_idle(void) {
  struct outbox *box = here();
  atomic_store(&box->in_flight, 0);
  if (!atomic_load(&box->pending)) return;
  pthread_mutex_lock(&box->lock);
  if (box->filled) {
    wake_sender(box);
    // The bytes it polls for may just have been read by this thread.
    if (box->sender_polling) eventfd_write(box->sender_kick, 1);
  }
  pthread_mutex_unlock(&box->lock);
}

void batch_reader_left(void) {
  struct outbox *box = here();
  connection_reader_left();
  if (!atomic_load(&box->in_flight) || !atomic_load(&box->pending)) return;
  pthread_mutex_lock(&box->lock);
  wake_sender(box);
  pthread_mutex_unlock(&box->lock);
}

// Takes what is filled, with both locks held.
static size_t swap_buffers(struct outbox *box, unsigned char **bytes) {
  size_t size = box->filled;
  box->sent_sequence = box->sequence;
  *bytes = box->buffers[box->filling];
  box->filling ^= 1;
  box->filled = 0;
  atomic_store_explicit(&box->pending, 0, memory_order_relaxed);
  return size;
}

static int send_traced(struct outbox *box, struct iovec *parts, int count) {
  uint64_t bytes = 0, first = box->traced_sequence + 1, at = trace_now();
  for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
  box->traced_sequence = box->sent_sequence;
  int error = connection_send(parts, count);
  trace_sent(at, bytes, first, box->traced_sequence);
  return error;
}

static int send_parts(struct outbox *box, struct iovec *parts, int count) {
  atomic_store(&box->in_flight, 1);
  stats_add(&guest_stats->batches, 1);
  int error = trace_on() ? send_traced(box, parts, count) : connection_send(parts, count);
  if (error && error != EFAULT) answer_lose(CUDA_ERROR_DEVICE_UNAVAILABLE, why_lost(error));
  return error;
}

// Sends what is filled now. The send lock is held, the batch lock is not: whoever sends may have
// to read answers, and those want the batch lock.
static void flush_as_sender(struct outbox *box) {
  pthread_mutex_lock(&box->lock);
  unsigned char *bytes;
  size_t size = swap_buffers(box, &bytes);
  pthread_mutex_unlock(&box->lock);
  if (size) {
    struct iovec part = {bytes, size};
    send_parts(box, &part, 1);
  }
}

static void flush(struct outbox *box) {
  pthread_mutex_lock(&box->send_lock);
  flush_as_sender(box);
  pthread_mutex_unlock(&box->send_lock);
}

void batch_send(void) { flush(here()); }

// With the batch lock held and room made; NULL (unlocked) when the connection is gone.
static void *append(struct outbox *box, uint16_t op, size_t size) {
  struct wire_header *header = (struct wire_header *)(box->buffers[box->filling] + box->filled);
  box->filled += size;
  atomic_store_explicit(&box->pending, 1, memory_order_relaxed);
  header->op = op;
  header->flags = 0;
  header->size = (uint32_t)size;
  box->sequence++;
  if (watch_on()) watch_posted(op, box->sequence, size);
  stats_add(&guest_stats->commands, 1);
  stats_add(&guest_stats->bytes_sent, size);
  return header;
}

void *batch_begin(uint16_t op, size_t size) {
  if (lane_crossed()) return NULL;
  struct outbox *box = here();
  pthread_mutex_lock(&box->lock);
  for (;;) {
    if (guest_is_lost()) {
      pthread_mutex_unlock(&box->lock);
      return NULL;
    }
    if (box->filled + size <= BATCH_BYTES) return append(box, op, size);
    pthread_mutex_unlock(&box->lock);
    flush(box);
    pthread_mutex_lock(&box->lock);
  }
}

CUresult batch_end(uint64_t stream) {
  struct outbox *box = here();
  stream_mark(stream, box->sequence);
  wake_sender(box);
  pthread_mutex_unlock(&box->lock);
  if (ablated(ABLATE_BATCHING)) flush(box);
  return CUDA_SUCCESS;
}

void *batch_begin_bulk(uint16_t op, size_t size, const void *payload, uint64_t length) {
  (void)payload;
  if (lane_crossed()) return NULL;
  struct outbox *box = here();
  uint32_t whole = (uint32_t)size + wire_round_up((uint32_t)length);
  if (length <= BATCH_COPY_MAX) {
    struct wire_header *header = batch_begin(op, whole);
    return header;
  }
  // The payload follows this very frame, so nobody else may send or append until it is out.
  pthread_mutex_lock(&box->send_lock);
  pthread_mutex_lock(&box->lock);
  while (box->filled + size > BATCH_BYTES) {
    pthread_mutex_unlock(&box->lock);
    flush_as_sender(box);
    pthread_mutex_lock(&box->lock);
  }
  if (guest_is_lost()) {
    pthread_mutex_unlock(&box->lock);
    pthread_mutex_unlock(&box->send_lock);
    return NULL;
  }
  struct wire_header *header = append(box, op, size);
  header->size = whole;
  stats_add(&guest_stats->bytes_sent, whole - size);
  if (watch_on()) stats_mine()->bytes_sent += whole - size;
  return header;
}

CUresult batch_end_bulk(uint64_t stream, const void *payload, uint64_t length) {
  struct outbox *box = here();
  static const unsigned char padding[8];
  uint32_t pad = wire_round_up((uint32_t)length) - (uint32_t)length;
  if (length <= BATCH_COPY_MAX) {
    unsigned char *end = box->buffers[box->filling] + box->filled;
    if (length) memcpy(end - length - pad, payload, length);
    memset(end - pad, 0, pad);
    return batch_end(stream);
  }
  stream_mark(stream, box->sequence);
  unsigned char *bytes;
  size_t size = swap_buffers(box, &bytes);
  pthread_mutex_unlock(&box->lock);
  struct iovec parts[3] = {{bytes, size}, {(void *)payload, length}, {(void *)padding, pad}};
  int error = send_parts(box, parts, pad ? 3 : 2);
  pthread_mutex_unlock(&box->send_lock);
  if (error == EFAULT) {
    log_error("the source of a copy to the device is not readable memory (%p)", payload);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return error ? guest_lost() : CUDA_SUCCESS;
}

void *batch_ask(uint16_t op, size_t size, struct answer *answer) {
  struct wire_request *request = batch_begin(op, size);
  if (!request) return NULL;
  answer_expect(answer);
  answer->sequence = here()->sequence;
  request->request = answer->request;
  return request;
}

static void count_own(const struct answer *answer) {
  struct stats_own *own = stats_mine();
  own->round_trips++;
  own->bytes_received += answer->destination_size;
  if (answer->reply) own->bytes_received += ((struct wire_header *)answer->reply)->size;
}

static CUresult take_answer(struct answer *answer, size_t reply_size, CUresult result) {
  if (watch_on()) count_own(answer);
  // An error needs no results behind it.
  if (!answer->result && !guest_is_lost() &&
      ((struct wire_header *)answer->reply)->size < reply_size) {
    answer_lose(CUDA_ERROR_DEVICE_UNAVAILABLE, "a reply that is too short");
    return guest_lost();
  }
  return result;
}

CUresult batch_wait(struct answer *answer, size_t reply_size) {
  struct outbox *box = here();
  struct trace_span waiting = {0};
  // While nobody can have sent it: clocks are compared by that.
  if (trace_on()) trace_wait_begin(&waiting, answer->request, answer->sequence);
  pthread_mutex_unlock(&box->lock);
  stats_add(&guest_stats->round_trips, 1);
  flush(box);
  CUresult result = answer_wait(answer);
  trace_wait_end(&waiting, result);
  result = take_answer(answer, reply_size, result);
  return result ? result : guest_take_async_error();
}

void batch_leave(uint64_t stream) {
  struct outbox *box = here();
  stream_mark(stream, box->sequence);
  pthread_mutex_unlock(&box->lock);
  stats_add(&guest_stats->round_trips, 1);
  flush(box);
}

CUresult batch_collect(struct answer *answer, size_t reply_size) {
  return take_answer(answer, reply_size, answer_wait(answer));
}

CUresult batch_defer(uint64_t stream) { return batch_end(stream); }

// Until the server says that it is idle, or another thread reads that it is. No lock held.
static void wait_for_idle(struct outbox *box) {
  pthread_mutex_lock(&box->lock);
  box->sender_polling = 1;
  pthread_mutex_unlock(&box->lock);
  // The idle message may have come before the flag was set.
  if (held_back(box)) {
    struct pollfd polled[2] = {{.fd = connection_fd(), .events = POLLIN},
                               {.fd = box->sender_kick, .events = POLLIN}};
    if (poll(polled, 2, connection_look_ms()) == 0 && connection_is_silent())
      answer_lose(CUDA_ERROR_DEVICE_UNAVAILABLE, why_lost(ETIMEDOUT));
    if (polled[1].revents) {
      eventfd_t count;
      eventfd_read(box->sender_kick, &count);
    }
  }
  pthread_mutex_lock(&box->lock);
  box->sender_polling = 0;
  pthread_mutex_unlock(&box->lock);
  if (!held_back(box) || answer_poll()) return;
  // Another thread reads. It wakes us when it reads that the server is idle (batch_server_idle),
  // and when it stops reading before that (batch_reader_left).
  pthread_mutex_lock(&box->lock);
  if (box->filled && held_back(box) && !guest_is_lost() && answer_is_being_read()) {
    box->sender_asleep = 1;
    pthread_cond_wait(&box->sender_wanted, &box->lock);
  }
  pthread_mutex_unlock(&box->lock);
}

// Programs that post and then wait send the batch themselves, and the sender is woken for nothing:
// on one processor that costs as much as the call. Where this has happened EMPTY_WAKES times in a
// row, it sleeps for NAP_NS and looks by itself instead; until it finds something, which it
// then sends late, or nothing has been posted for NAPS of them.
#define EMPTY_WAKES 16
#define NAP_NS 50000
#define NAPS 40
static void nap(struct outbox *box) {
  const struct timespec time = {.tv_nsec = NAP_NS};
  pthread_mutex_unlock(&box->lock);
  nanosleep(&time, NULL);
  pthread_mutex_lock(&box->lock);
  if (box->filled)
    box->sender_naps = 0;
  else if (box->sequence != box->nap_sequence)
    box->sender_naps = NAPS;
  else
    box->sender_naps--;
  box->nap_sequence = box->sequence;
}

// Sends what nobody waits for, as soon as the server has nothing left to do.
static void *sender(void *of) {
  struct outbox *box = of;
  lane_use((unsigned)(box - outboxes));
  // Woken by a thread that posts, and often posts more or waits at once: it must not take that
  // thread's processor from it. Where this is refused, all works as well, a little slower.
  const struct sched_param none = {0};
  sched_setscheduler(0, SCHED_BATCH, &none);
  unsigned empty_wakes = 0;
  pthread_mutex_lock(&box->lock);
  for (;;) {
    if (guest_is_lost()) break;
    if (!box->filled && box->sender_naps) {
      nap(box);
      continue;
    }
    if (!box->filled) {
      box->sender_asleep = 1;
      pthread_cond_wait(&box->sender_wanted, &box->lock);
      empty_wakes = box->filled ? 0 : empty_wakes + 1;
      if (empty_wakes == EMPTY_WAKES) box->sender_naps = NAPS, empty_wakes = 0;
      continue;
    }
    pthread_mutex_unlock(&box->lock);
    if (!held_back(box)) {
      flush(box);
      pthread_mutex_lock(&box->lock);
      continue;
    }
    wait_for_idle(box);
    pthread_mutex_lock(&box->lock);
  }
  pthread_mutex_unlock(&box->lock);
  return NULL;
}

int batch_start(void) {
  struct outbox *box = here();
  box->sender_kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (box->sender_kick < 0) return errno;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  // The program's signals are the program's threads' business.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, sender, box);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}
