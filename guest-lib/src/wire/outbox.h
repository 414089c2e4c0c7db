// What is filled and not sent yet of a session: what batch.c, which fills it, and sender.c, which
// sends what nobody waits for, share. For these two alone.
#ifndef OUTBOARD_OUTBOX_H
#define OUTBOARD_OUTBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>

#include "session/session.h"
#include "wire/answer.h"
#include "wire/batch.h"

// Two buffers: one is filled while the other is being sent.
struct outbox {
  pthread_mutex_t send_lock, lock;
  pthread_cond_t sender_wanted;
  int filling;
  size_t filled;
  uint64_t sequence;
  const struct wire_header *last;  // the last command, until it is sent
  uint64_t sent_sequence;          // of the last command sent; under send_lock
  uint64_t traced_sequence;        // of the last one traced
  _Bool sender_asleep;
  unsigned sender_naps;   // left to it (nap, sender.c): it looks by itself, and is not woken
  uint64_t nap_sequence;  // of the last command when it last looked
  _Bool sender_polling;   // it waits for the server's bytes, not for the condition
  _Bool started;          // the sender's thread
  int sender_kick;        // eventfd that ends such a wait
  // Something was sent since the server last said that it has taken everything up.
  _Atomic _Bool in_flight;
  // Mirrors `filled != 0` for readers without the lock.
  _Atomic _Bool pending;
  unsigned char buffers[2][BATCH_BYTES] __attribute__((aligned(64)));
};

// Whether what is filled stays here until the server is idle. Not while somebody waits for an
// answer: the answer may need what another thread has posted since.
static inline _Bool outbox_held_back(struct session *session) {
  struct outbox *outbox = session->outbox;
  return atomic_load(&outbox->in_flight) && !answers_expected(session);
}

// Lets the sender know that something is filled, if it waits. With the lock held.
static inline void outbox_wake_sender(struct session *session) {
  struct outbox *outbox = session->outbox;
  if (outbox->sender_asleep) {
    outbox->sender_asleep = 0;
    pthread_cond_signal(&outbox->sender_wanted);
  } else if (outbox->sender_polling && !outbox_held_back(session)) {
    outbox->sender_polling = 0;
    eventfd_write(outbox->sender_kick, 1);
  }
}

#endif
