#include "batch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>

#include "ablation.h"
#include "connection.h"
#include "enter.h"
#include "log.h"
#include "stats.h"
#include "stream.h"
#include "watch.h"

static pthread_mutex_t send_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sender_wanted = PTHREAD_COND_INITIALIZER;

// Two buffers: one is filled while the other is being sent.
static unsigned char buffers[2][BATCH_BYTES] __attribute__((aligned(64)));
static int filling;
static size_t filled;
static uint64_t sequence;
static uint64_t sent_sequence;  // of the last command sent; the sender's
static _Bool sender_asleep;
static unsigned sender_naps;  // left to it, see nap(): it looks by itself, and is not woken
static _Bool sender_polling;  // it waits for the server's bytes, not for the condition
static int sender_kick = -1;  // eventfd that ends such a wait

// Something was sent since the server last said that it has taken everything up.
static _Atomic _Bool in_flight;
// Mirrors `filled != 0` for readers without the lock.
static _Atomic _Bool pending;

uint64_t batch_sequence(void) {
  pthread_mutex_lock(&lock);
  uint64_t now = sequence;
  pthread_mutex_unlock(&lock);
  return now;
}

// Whether what is filled stays here until the server is idle. Not while somebody waits for an
// answer: the answer may need what another thread has posted since.
static _Bool held_back(void) { return atomic_load(&in_flight) && !answers_expected(); }

// With the lock held.
static void wake_sender(void) {
  if (sender_asleep) {
    sender_asleep = 0;
    pthread_cond_signal(&sender_wanted);
  } else if (sender_polling && !held_back()) {
    sender_polling = 0;
    eventfd_write(sender_kick, 1);
  }
}

void batch_server_idle(void) {
  atomic_store(&in_flight, 0);
  if (!atomic_load(&pending)) return;
  pthread_mutex_lock(&lock);
  if (filled) {
    wake_sender();
    // The bytes it polls for may just have been read by this thread.
    if (sender_polling) eventfd_write(sender_kick, 1);
  }
  pthread_mutex_unlock(&lock);
}

void batch_reader_left(void) {
  connection_reader_left();
  if (!atomic_load(&in_flight) || !atomic_load(&pending)) return;
  pthread_mutex_lock(&lock);
  wake_sender();
  pthread_mutex_unlock(&lock);
}

// Takes what is filled, with both locks held.
static size_t swap_buffers(unsigned char **bytes) {
  size_t size = filled;
  sent_sequence = sequence;
  *bytes = buffers[filling];
  filling ^= 1;
  filled = 0;
  atomic_store_explicit(&pending, 0, memory_order_relaxed);
  return size;
}

static int send_traced(struct iovec *parts, int count) {
  static uint64_t traced_sequence;
  uint64_t bytes = 0, first = traced_sequence + 1, at = trace_now();
  for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
  traced_sequence = sent_sequence;
  int error = connection_send(parts, count);
  trace_sent(at, bytes, first, traced_sequence);
  return error;
}

static int send_parts(struct iovec *parts, int count) {
  atomic_store(&in_flight, 1);
  stats_add(&guest_stats->batches, 1);
  int error = trace_on() ? send_traced(parts, count) : connection_send(parts, count);
  if (error && error != EFAULT) answer_lose(CUDA_ERROR_DEVICE_UNAVAILABLE, strerror(error));
  return error;
}

// Sends what is filled now. The send lock is held, the batch lock is not: whoever sends may have
// to read answers, and those want the batch lock.
static void flush_as_sender(void) {
  pthread_mutex_lock(&lock);
  unsigned char *bytes;
  size_t size = swap_buffers(&bytes);
  pthread_mutex_unlock(&lock);
  if (size) {
    struct iovec part = {bytes, size};
    send_parts(&part, 1);
  }
}

static void flush(void) {
  pthread_mutex_lock(&send_lock);
  flush_as_sender();
  pthread_mutex_unlock(&send_lock);
}

void batch_send(void) { flush(); }

// With the batch lock held and room made; NULL (unlocked) when the connection is gone.
static void *append(uint16_t op, size_t size) {
  struct wire_header *header = (struct wire_header *)(buffers[filling] + filled);
  filled += size;
  atomic_store_explicit(&pending, 1, memory_order_relaxed);
  header->op = op;
  header->flags = 0;
  header->size = (uint32_t)size;
  sequence++;
  if (watch_on()) watch_posted(op, sequence, size);
  stats_add(&guest_stats->commands, 1);
  stats_add(&guest_stats->bytes_sent, size);
  return header;
}

void *batch_begin(uint16_t op, size_t size) {
  pthread_mutex_lock(&lock);
  for (;;) {
    if (guest_is_lost()) {
      pthread_mutex_unlock(&lock);
      return NULL;
    }
    if (filled + size <= BATCH_BYTES) return append(op, size);
    pthread_mutex_unlock(&lock);
    flush();
    pthread_mutex_lock(&lock);
  }
}

CUresult batch_end(uint64_t stream) {
  stream_mark(stream, sequence);
  wake_sender();
  pthread_mutex_unlock(&lock);
  if (ablated(ABLATE_BATCHING)) flush();
  return CUDA_SUCCESS;
}

void *batch_begin_bulk(uint16_t op, size_t size, const void *payload, uint64_t length) {
  (void)payload;
  uint32_t whole = (uint32_t)size + wire_round_up((uint32_t)length);
  if (length <= BATCH_COPY_MAX) {
    struct wire_header *header = batch_begin(op, whole);
    return header;
  }
  // The payload follows this very frame, so nobody else may send or append until it is out.
  pthread_mutex_lock(&send_lock);
  pthread_mutex_lock(&lock);
  while (filled + size > BATCH_BYTES) {
    pthread_mutex_unlock(&lock);
    flush_as_sender();
    pthread_mutex_lock(&lock);
  }
  if (guest_is_lost()) {
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&send_lock);
    return NULL;
  }
  struct wire_header *header = append(op, size);
  header->size = whole;
  stats_add(&guest_stats->bytes_sent, whole - size);
  if (watch_on()) stats_mine()->bytes_sent += whole - size;
  return header;
}

CUresult batch_end_bulk(uint64_t stream, const void *payload, uint64_t length) {
  static const unsigned char padding[8];
  uint32_t pad = wire_round_up((uint32_t)length) - (uint32_t)length;
  if (length <= BATCH_COPY_MAX) {
    unsigned char *end = buffers[filling] + filled;
    if (length) memcpy(end - length - pad, payload, length);
    memset(end - pad, 0, pad);
    return batch_end(stream);
  }
  stream_mark(stream, sequence);
  unsigned char *bytes;
  size_t size = swap_buffers(&bytes);
  pthread_mutex_unlock(&lock);
  struct iovec parts[3] = {{bytes, size}, {(void *)payload, length}, {(void *)padding, pad}};
  int error = send_parts(parts, pad ? 3 : 2);
  pthread_mutex_unlock(&send_lock);
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
  answer->sequence = sequence;
  request->request = answer->request;
  return request;
}

static void count_own(const struct answer *answer) {
  struct stats_own *own = stats_mine();
  own->round_trips++;
  own->bytes_received += answer->destination_size;
  if (answer->reply) own->bytes_received += ((struct wire_header *)answer->reply)->size;
}

CUresult batch_wait(struct answer *answer, size_t reply_size) {
  struct trace_span waiting = {0};
  // While nobody can have sent it: clocks are compared by that.
  if (trace_on()) trace_wait_begin(&waiting, answer->request, answer->sequence);
  pthread_mutex_unlock(&lock);
  stats_add(&guest_stats->round_trips, 1);
  flush();
  CUresult result = answer_wait(answer);
  trace_wait_end(&waiting, result);
  if (watch_on()) count_own(answer);
  // An error needs no results behind it.
  if (!answer->result && !guest_is_lost() &&
      ((struct wire_header *)answer->reply)->size < reply_size) {
    answer_lose(CUDA_ERROR_DEVICE_UNAVAILABLE, "a reply that is too short");
    return guest_lost();
  }
  return result ? result : guest_take_async_error();
}

CUresult batch_defer(uint64_t stream) { return batch_end(stream); }

// Until the server says that it is idle, or another thread reads that it is. No lock held.
static void wait_for_idle(void) {
  pthread_mutex_lock(&lock);
  sender_polling = 1;
  pthread_mutex_unlock(&lock);
  // The idle message may have come before the flag was set.
  if (held_back()) {
    struct pollfd polled[2] = {{.fd = connection_fd, .events = POLLIN},
                               {.fd = sender_kick, .events = POLLIN}};
    poll(polled, 2, -1);
    if (polled[1].revents) {
      eventfd_t count;
      eventfd_read(sender_kick, &count);
    }
  }
  pthread_mutex_lock(&lock);
  sender_polling = 0;
  pthread_mutex_unlock(&lock);
  if (!held_back() || answer_poll()) return;
  // Another thread reads. It wakes us when it reads that the server is idle (batch_server_idle),
  // and when it stops reading before that (batch_reader_left).
  pthread_mutex_lock(&lock);
  if (filled && held_back() && !guest_is_lost() && answer_is_being_read()) {
    sender_asleep = 1;
    pthread_cond_wait(&sender_wanted, &lock);
  }
  pthread_mutex_unlock(&lock);
}

// Programs that post and then wait send the batch themselves, and the sender is woken for nothing:
// on one processor that costs as much as the call. Where this has happened EMPTY_WAKES times in a
// row, it sleeps for NAP_NS and looks by itself instead; until it finds something, which it
// then sends late, or nothing has been posted for NAPS of them.
#define EMPTY_WAKES 16
#define NAP_NS 50000
#define NAPS 40
static void nap(void) {
  static uint64_t seen;
  const struct timespec time = {.tv_nsec = NAP_NS};
  pthread_mutex_unlock(&lock);
  nanosleep(&time, NULL);
  pthread_mutex_lock(&lock);
  if (filled)
    sender_naps = 0;
  else if (sequence != seen)
    sender_naps = NAPS;
  else
    sender_naps--;
  seen = sequence;
}

// Sends what nobody waits for, as soon as the server has nothing left to do.
static void *sender(void *unused) {
  (void)unused;
  // Woken by a thread that posts, and often posts more or waits at once: it must not take that
  // thread's processor from it. Where this is refused, all works as well, a little slower.
  const struct sched_param none = {0};
  sched_setscheduler(0, SCHED_BATCH, &none);
  unsigned empty_wakes = 0;
  pthread_mutex_lock(&lock);
  for (;;) {
    if (guest_is_lost()) break;
    if (!filled && sender_naps) {
      nap();
      continue;
    }
    if (!filled) {
      sender_asleep = 1;
      pthread_cond_wait(&sender_wanted, &lock);
      empty_wakes = filled ? 0 : empty_wakes + 1;
      if (empty_wakes == EMPTY_WAKES) sender_naps = NAPS, empty_wakes = 0;
      continue;
    }
    pthread_mutex_unlock(&lock);
    if (!held_back()) {
      flush();
      pthread_mutex_lock(&lock);
      continue;
    }
    wait_for_idle();
    pthread_mutex_lock(&lock);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

int batch_start(void) {
  sender_kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (sender_kick < 0) return errno;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  // The program's signals are the program's threads' business.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, sender, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}
