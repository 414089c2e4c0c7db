#include "wire/sender.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>

#include "abi_descriptor.h"
#include "base/thread.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire/outbox.h"

// Until the server says that it is idle, or another thread reads that it is. No lock held.
static void wait_for_idle(struct session *session) {
  struct outbox *outbox = session->outbox;
  pthread_mutex_lock(&outbox->lock);
  outbox->sender_polling = 1;
  pthread_mutex_unlock(&outbox->lock);
  // The idle message may have come before the flag was set.
  if (outbox_held_back(session)) {
    struct pollfd polled[2] = {{.fd = connection_fd(session), .events = POLLIN},
                               {.fd = outbox->sender_kick, .events = POLLIN}};
    if (poll(polled, 2, connection_look_ms()) == 0 && connection_is_silent(session))
      answer_cut(session, ETIMEDOUT);
    if (polled[1].revents) {
      eventfd_t count;
      eventfd_read(outbox->sender_kick, &count);
    }
  }
  pthread_mutex_lock(&outbox->lock);
  outbox->sender_polling = 0;
  pthread_mutex_unlock(&outbox->lock);
  if (!outbox_held_back(session) || answer_poll(session)) return;
  // Another thread reads. It wakes us when it reads that the server is idle (batch_server_idle),
  // and when it stops reading before that (batch_reader_left).
  pthread_mutex_lock(&outbox->lock);
  if (outbox->filled && outbox_held_back(session) && !guest_is_lost() &&
      answer_is_being_read(session)) {
    outbox->sender_asleep = 1;
    pthread_cond_wait(&outbox->sender_wanted, &outbox->lock);
  }
  pthread_mutex_unlock(&outbox->lock);
}

// Programs that post and then wait send the batch themselves, and the sender is woken for nothing:
// on one processor that costs as much as the call. Where this has happened EMPTY_WAKES times in a
// row, it sleeps for NAP_NS and looks by itself instead; until it finds something, which it
// then sends late, or nothing has been posted for NAPS of them.
#define EMPTY_WAKES 16
#define NAP_NS 50000
#define NAPS 40
static void nap(struct session *session) {
  struct outbox *outbox = session->outbox;
  const struct timespec time = {.tv_nsec = NAP_NS};
  pthread_mutex_unlock(&outbox->lock);
  nanosleep(&time, NULL);
  pthread_mutex_lock(&outbox->lock);
  if (outbox->filled)
    outbox->sender_naps = 0;
  else if (outbox->sequence != outbox->nap_sequence)
    outbox->sender_naps = NAPS;
  else
    outbox->sender_naps--;
  outbox->nap_sequence = outbox->sequence;
}

// Sends what nobody waits for, as soon as it need not be held back.
static void *sender(void *of) {
  struct session *session = of;
  struct outbox *outbox = session->outbox;
  // Woken by a thread that posts, and often posts more or waits at once: it must not take that
  // thread's processor from it. Where this is refused, all works as well, a little slower.
  const struct sched_param none = {0};
  sched_setscheduler(0, SCHED_BATCH, &none);
  unsigned empty_wakes = 0;
  pthread_mutex_lock(&outbox->lock);
  for (;;) {
    if (guest_is_lost()) break;
    if (!outbox->filled && outbox->sender_naps) {
      nap(session);
      continue;
    }
    if (!outbox->filled) {
      outbox->sender_asleep = 1;
      pthread_cond_wait(&outbox->sender_wanted, &outbox->lock);
      empty_wakes = outbox->filled ? 0 : empty_wakes + 1;
      if (empty_wakes == EMPTY_WAKES) outbox->sender_naps = NAPS, empty_wakes = 0;
      continue;
    }
    pthread_mutex_unlock(&outbox->lock);
    if (!outbox_held_back(session)) {
      batch_send(session);
      pthread_mutex_lock(&outbox->lock);
      continue;
    }
    wait_for_idle(session);
    pthread_mutex_lock(&outbox->lock);
  }
  pthread_mutex_unlock(&outbox->lock);
  return NULL;
}

int sender_start(struct session *session) {
  struct outbox *outbox = session->outbox;
  // After a cuInit that failed for another session, it is there.
  if (outbox->started) return 0;
  outbox->sender_kick = descriptor_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (outbox->sender_kick < 0) return errno;
  const int error = thread_start(sender, session);
  outbox->started = !error;
  return error;
}
