// Questions that wait for the server's answer, and who reads the socket for them. There is no
// thread for reading: whoever waits for an answer reads, for all others too, unless another thread
// already does.
#ifndef OUTBOARD_ANSWER_H
#define OUTBOARD_ANSWER_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

struct answer {
  struct answer *next;
  uint64_t request;
  uint64_t sequence;  // of the command that asked
  void *reply;        // the whole reply frame; NULL when there was none
  // Where data goes: rows of `width` bytes, `pitch` apart, in slices of `height` rows, `slice`
  // apart.
  uint8_t *destination;
  uint64_t destination_size;
  uint64_t width, height, pitch, slice;
  int32_t result;
  _Bool done;
  _Bool deferred;  // nobody waits: freed when it is done
  _Bool unasked;   // nobody has asked: the answer of a module that was expected (WIRE_EXPECTED)
  uint8_t small[128] __attribute__((aligned(8)));
};

// Says where the data of an answer goes in the program's memory: into a box of rows that lie apart
// (width, pitch and slice are in bytes, height in rows), or into `size` bytes in a row. To be
// called after answer_init and before the question is asked; no size is 0.
static inline void answer_into_rows(struct answer *answer, void *destination, uint64_t width,
                                    uint64_t height, uint64_t depth, uint64_t pitch,
                                    uint64_t slice) {
  answer->destination = destination;
  answer->destination_size = width * height * depth;
  answer->width = width;
  answer->height = height;
  answer->pitch = pitch;
  answer->slice = slice;
}
static inline void answer_into(struct answer *answer, void *destination, uint64_t size) {
  answer_into_rows(answer, destination, size, 1, 1, 0, 0);
}
// Prepares an answer for one question. To be called before each, and before anything else here.
static inline void answer_init(struct answer *answer) {
  answer->reply = 0;
  answer->destination = 0;
  answer->destination_size = 0;
  answer->deferred = 0;
}

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool inbox_make(struct session *session);

// Returns an initialised answer for a question that nobody waits for, from a pool of the session;
// NULL when there is no memory. The caller sets `deferred`. It goes back to the pool by itself once
// it is there; answer_give_back is for one whose question was not sent after all.
struct answer *answer_take_deferred(struct session *session);
void answer_give_back(struct session *session, struct answer *answer);

// Registers a question and gives it the number that its answer will name (answer->request). The
// caller holds the batch lock, so that questions are registered in the order in which they are
// sent.
void answer_expect(struct session *session, struct answer *answer);
// Registers an answer that comes under the number `request` without a question. To be called before
// anything can have read it.
void answer_expect_unasked(struct session *session, struct answer *answer, uint64_t request);
// Reads the socket until the answer is there, or waits for another thread that reads it. The
// question is registered and has been sent, or is going to be by somebody else. Returns the result
// in the answer, or what guest_lost (enter.h) says once the connection is gone.
CUresult answer_wait(struct session *session, struct answer *answer);
// The same for what comes without a question: reads, or waits for another thread that reads, until
// there(what). It has to become true by what the server sends, WIRE_PASSED among it, or by the loss
// of the connection. Called with and without locks of answers; it may take none.
void answer_read_until(struct session *session, _Bool (*there)(const void *what), const void *what);
// Frees the reply of an answer that was waited for, and not the answer itself.
void answer_free(struct answer *answer);

// Reads what has arrived without waiting, unless another thread is reading. True when it read. No
// lock of batch or answers may be held.
_Bool answer_poll(struct session *session);

// For a session that is released: keeps everybody from reading, until answer_read_again. False when
// somebody reads, or waits for an answer: nothing has changed.
_Bool answer_release(struct session *session);
// Forgets what has come and what was still to come from a connection that is closed. Nobody reads.
void answer_begin_anew(struct session *session);
void answer_read_again(struct session *session);

// Whether a thread is reading. The caller may hold the batch lock.
_Bool answer_is_being_read(struct session *session);

// Whether questions are asked and not yet answered, deferred ones among them; answers that come
// unasked do not count.
static inline _Bool answers_expected(struct session *session) { return session->answers_open != 0; }

// Returns how many deferred answers are not there yet. Whoever synchronises need not ask: answers
// that a synchronisation covers come before its own.
uint64_t answer_outstanding(struct session *session);

// Whether a deferred answer that is not there yet goes to any of these bytes.
_Bool answer_lands_in(struct session *session, const void *memory, uint64_t size);

// What the server sends that is no answer, and whom it is told to, on the thread that reads.
struct answer_listener {
  // An event that was asked about is done.
  void (*event_finished)(struct session *session, const struct wire_done *done);
  // A stream has come to a function of the program. False when there is no such function.
  _Bool (*called)(struct session *session, const struct wire_call *call);
  // A thread has stopped reading.
  void (*reader_left)(void);
};
// Names the listener, which stays for ever. To be called once, before anything is read; until then
// nobody is told.
void answer_listen(const struct answer_listener *by);

// For wire/comeback.c, while the connection is another one: reads what the old one still has, and
// keeps everybody else from reading, until answer_read_on, which says from now on there is
// something to read again.
void answer_read_out(struct session *session);
void answer_read_on(struct session *session);

// To be called when a connection has ended, for `error`: its session is taken up again, or all are
// given up.
void answer_cut(struct session *session, int error);

// Returns what an errno value of the socket means, for people.
const char *why_lost(int error);
// Gives the connections of all sessions up, with a line in the log that says why: everybody who
// waits is released with an error, and every later call of the program gets `result`.
void answer_give_up(CUresult result, const char *why);

#endif
