#include "wire/batch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/ablation.h"
#include "base/stats.h"
#include "base/trace.h"
#include "base/watch.h"
#include "session/session.h"
#include "setup/log.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire/order.h"
#include "wire/outbox.h"

_Bool outbox_make(struct session *session) {
  struct outbox *outbox = session->outbox;
  if (outbox) return 1;
  // Pages of zeros, of which those that are never written cost no memory. Memory of the heap would
  // be wrong: what the program had there would be sent with the padding of frames.
  outbox = mmap(NULL, sizeof *outbox, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (outbox == MAP_FAILED) return 0;
  pthread_mutex_init(&outbox->send_lock, NULL);
  pthread_mutex_init(&outbox->lock, NULL);
  pthread_cond_init(&outbox->sender_wanted, NULL);
  session->outbox = outbox;
  return 1;
}

uint64_t batch_sequence(struct session *session) {
  struct outbox *outbox = session->outbox;
  pthread_mutex_lock(&outbox->lock);
  uint64_t now = outbox->sequence;
  pthread_mutex_unlock(&outbox->lock);
  return now;
}

void batch_server_idle(struct session *session) {
  struct outbox *outbox = session->outbox;
  atomic_store(&outbox->in_flight, 0);
  if (!atomic_load(&outbox->pending)) return;
  pthread_mutex_lock(&outbox->lock);
  if (outbox->filled) {
    outbox_wake_sender(session);
    // The bytes it polls for may just have been read by this thread.
    if (outbox->sender_polling) eventfd_write(outbox->sender_kick, 1);
  }
  pthread_mutex_unlock(&outbox->lock);
}

void batch_reader_left(struct session *session) {
  struct outbox *outbox = session->outbox;
  connection_reader_left(session);
  if (!atomic_load(&outbox->in_flight) || !atomic_load(&outbox->pending)) return;
  pthread_mutex_lock(&outbox->lock);
  outbox_wake_sender(session);
  pthread_mutex_unlock(&outbox->lock);
}

// Takes what is filled, with both locks held.
static size_t swap_buffers(struct session *session, unsigned char **bytes) {
  struct outbox *outbox = session->outbox;
  size_t size = outbox->filled;
  outbox->sent_sequence = outbox->sequence;
  *bytes = outbox->buffers[outbox->filling];
  outbox->filling ^= 1;
  outbox->filled = 0;
  atomic_store_explicit(&outbox->pending, 0, memory_order_relaxed);
  return size;
}

static int send_traced(struct session *session, struct iovec *parts, int count) {
  struct outbox *outbox = session->outbox;
  uint64_t bytes = 0, first = outbox->traced_sequence + 1, at = trace_now();
  for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
  outbox->traced_sequence = outbox->sent_sequence;
  int error = connection_send(session, parts, count);
  trace_sent(at, bytes, first, outbox->traced_sequence);
  return error;
}

static int send_parts(struct session *session, struct iovec *parts, int count) {
  struct outbox *outbox = session->outbox;
  atomic_store(&outbox->in_flight, 1);
  stats_add(&guest_stats->batches, 1);
  int error =
      trace_on() ? send_traced(session, parts, count) : connection_send(session, parts, count);
  if (error && error != EFAULT) answer_give_up(CUDA_ERROR_DEVICE_UNAVAILABLE, why_lost(error));
  return error;
}

// Sends what is filled now. The send lock is held, the batch lock is not: whoever sends may have
// to read answers, and those want the batch lock.
static void flush_send_locked(struct session *session) {
  struct outbox *outbox = session->outbox;
  pthread_mutex_lock(&outbox->lock);
  unsigned char *bytes;
  size_t size = swap_buffers(session, &bytes);
  pthread_mutex_unlock(&outbox->lock);
  if (size) {
    struct iovec part = {bytes, size};
    send_parts(session, &part, 1);
  }
}

static void flush(struct session *session) {
  struct outbox *outbox = session->outbox;
  pthread_mutex_lock(&outbox->send_lock);
  flush_send_locked(session);
  pthread_mutex_unlock(&outbox->send_lock);
}

void batch_send(struct session *session) { flush(session); }

_Bool batch_release(struct session *session) {
  struct outbox *outbox = session->outbox;
  pthread_mutex_lock(&outbox->send_lock);
  pthread_mutex_lock(&outbox->lock);
  const _Bool empty = !outbox->filled;
  if (empty) {
    guest_set_released(1);
    atomic_store(&outbox->in_flight, 0);
  }
  pthread_mutex_unlock(&outbox->lock);
  pthread_mutex_unlock(&outbox->send_lock);
  return empty;
}

// With the batch lock held and room made.
static void *append(struct session *session, uint16_t op, size_t size) {
  struct outbox *outbox = session->outbox;
  struct wire_header *header =
      (struct wire_header *)(outbox->buffers[outbox->filling] + outbox->filled);
  outbox->filled += size;
  atomic_store_explicit(&outbox->pending, 1, memory_order_relaxed);
  header->op = op;
  header->flags = 0;
  header->size = (uint32_t)size;
  outbox->sequence++;
  outbox->last = header;
  if (watch_on()) watch_posted(op, outbox->sequence, size);
  stats_add(&guest_stats->commands, 1);
  stats_add(&guest_stats->bytes_sent, size);
  return header;
}

void *batch_begin(struct session *session, uint16_t op, size_t size) {
  if (session_mixed_error()) return NULL;
  struct outbox *outbox = session->outbox;
  pthread_mutex_lock(&outbox->lock);
  for (;;) {
    if (!guest_may_send()) {
      pthread_mutex_unlock(&outbox->lock);
      return NULL;
    }
    if (outbox->filled + size <= BATCH_BYTES) return append(session, op, size);
    pthread_mutex_unlock(&outbox->lock);
    flush(session);
    pthread_mutex_lock(&outbox->lock);
  }
}

CUresult batch_end(struct session *session, uint64_t stream) {
  struct outbox *outbox = session->outbox;
  stream_mark(session, stream, outbox->sequence, outbox->last);
  outbox_wake_sender(session);
  pthread_mutex_unlock(&outbox->lock);  // held since batch_begin
  if (ablated(ABLATE_BATCHING)) flush(session);
  return CUDA_SUCCESS;
}

void *batch_begin_bulk(struct session *session, uint16_t op, size_t size, uint64_t length) {
  if (session_mixed_error()) return NULL;
  struct outbox *outbox = session->outbox;
  uint32_t whole = (uint32_t)size + wire_round_up((uint32_t)length);
  if (length <= BATCH_COPY_MAX) return batch_begin(session, op, whole);
  // The payload follows this very frame, so nobody else may send or append until it is out.
  pthread_mutex_lock(&outbox->send_lock);
  pthread_mutex_lock(&outbox->lock);
  while (outbox->filled + size > BATCH_BYTES) {
    pthread_mutex_unlock(&outbox->lock);
    flush_send_locked(session);
    pthread_mutex_lock(&outbox->lock);
  }
  if (!guest_may_send()) {
    pthread_mutex_unlock(&outbox->lock);
    pthread_mutex_unlock(&outbox->send_lock);
    return NULL;
  }
  struct wire_header *header = append(session, op, size);
  header->size = whole;
  stats_add(&guest_stats->bytes_sent, whole - size);
  if (watch_on()) stats_mine()->bytes_sent += whole - size;
  return header;
}

CUresult batch_end_bulk(struct session *session, uint64_t stream, const void *payload,
                        uint64_t length) {
  struct outbox *outbox = session->outbox;
  static const unsigned char padding[8];
  uint32_t pad = wire_round_up((uint32_t)length) - (uint32_t)length;
  if (length <= BATCH_COPY_MAX) {
    unsigned char *end = outbox->buffers[outbox->filling] + outbox->filled;
    if (length) memcpy(end - length - pad, payload, length);
    memset(end - pad, 0, pad);
    return batch_end(session, stream);
  }
  stream_mark(session, stream, outbox->sequence, outbox->last);
  unsigned char *bytes;
  size_t size = swap_buffers(session, &bytes);
  pthread_mutex_unlock(&outbox->lock);
  struct iovec parts[3] = {{bytes, size}, {(void *)payload, length}, {(void *)padding, pad}};
  int error = send_parts(session, parts, pad ? 3 : 2);
  pthread_mutex_unlock(&outbox->send_lock);
  if (error == EFAULT) {
    log_error("the source of a copy to the device is not readable memory (%p)", payload);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return error ? guest_lost() : CUDA_SUCCESS;
}

void *batch_ask(struct session *session, uint16_t op, size_t size, struct answer *answer) {
  struct wire_request *request = batch_begin(session, op, size);
  if (!request) return NULL;
  answer_expect(session, answer);
  answer->sequence = session->outbox->sequence;
  request->request = answer->request;
  return request;
}

static void count_own(const struct answer *answer) {
  struct stats_own *own = stats_mine();
  own->round_trips++;
  own->bytes_received += answer->destination_size;
  if (answer->reply) own->bytes_received += ((struct wire_header *)answer->reply)->size;
}

static CUresult check_answer(struct answer *answer, size_t reply_size, CUresult result) {
  if (watch_on()) count_own(answer);
  // An error needs no results behind it.
  if (!answer->result && !guest_is_lost() &&
      ((struct wire_header *)answer->reply)->size < reply_size) {
    answer_give_up(CUDA_ERROR_DEVICE_UNAVAILABLE, "a reply that is too short");
    return guest_lost();
  }
  return result;
}

CUresult batch_wait(struct session *session, struct answer *answer, size_t reply_size) {
  struct outbox *outbox = session->outbox;
  struct trace_span waiting = {0};
  // While nobody can have sent it: clocks are compared by that.
  if (trace_on()) trace_wait_begin(&waiting, answer->request, answer->sequence);
  pthread_mutex_unlock(&outbox->lock);  // held since batch_ask
  stats_add(&guest_stats->round_trips, 1);
  flush(session);
  CUresult result = answer_wait(session, answer);
  trace_wait_end(&waiting, result);
  result = check_answer(answer, reply_size, result);
  return result ? result : guest_take_async_error(session);
}

void batch_leave(struct session *session, uint64_t stream) {
  struct outbox *outbox = session->outbox;
  stream_mark(session, stream, outbox->sequence, outbox->last);
  pthread_mutex_unlock(&outbox->lock);
  stats_add(&guest_stats->round_trips, 1);
  flush(session);
}

CUresult batch_collect(struct session *session, struct answer *answer, size_t reply_size) {
  return check_answer(answer, reply_size, answer_wait(session, answer));
}

CUresult batch_defer(struct session *session, uint64_t stream) {
  return batch_end(session, stream);
}
