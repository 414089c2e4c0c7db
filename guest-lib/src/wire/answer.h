// Questions that wait for the server's answer, and who reads the socket for them.
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
  _Bool unasked;
  uint8_t small[128] __attribute__((aligned(8)));
};

// For an answer that the program's memory at `destination` receives: rows that lie apart, or bytes
// in a row.
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
static inline void answer_init(struct answer *answer) {
  answer->reply = 0;
  answer->destination = 0;
  answer->destination_size = 0;
  answer->deferred = 0;
}

// A deferred answer's memory comes from a pool.
struct answer *answer_take_deferred(void);
void answer_give_back(struct answer *answer);  // one that was not asked after all

// What follows is about the session that the thread is in (session.h).
//
// Registers a question; the caller holds the batch lock.
void answer_expect(struct answer *answer);
// The same for an answer that comes without a question; nobody may be waiting for it yet.
void answer_expect_unasked(struct answer *answer, uint64_t request);
// Reads the socket until the answer is there, or waits for another thread that reads it.
CUresult answer_wait(struct answer *answer);
void answer_free(struct answer *answer);

// Reads what has arrived without waiting, unless another thread is reading. True when it read.
_Bool answer_poll(void);

// Whether a thread is reading. The caller may hold the batch lock.
_Bool answer_is_being_read(void);

// Questions asked and not yet answered, deferred ones among them, but nothing that comes unasked.
extern _Atomic uint64_t answers_open[SESSIONS_MAX];
static inline _Bool answers_expected(void) { return answers_open[session_here()] != 0; }

// Deferred answers not yet there. The callers of synchronisation need not ask: answers that a
// synchronisation covers come before its own.
uint64_t answer_outstanding(void);

// Whether one of them is for this memory.
_Bool answer_lands_in(const void *memory, uint64_t size);

// Who hears what is of nobody that waits here, on the thread that reads: that an event asked about
// is done; that a stream has come to a function of the program (false: there is none such); that a
// thread has stopped reading. Named once, before anything is read; until then nobody hears.
struct answer_listener {
  void (*event_finished)(const struct wire_done *done);
  _Bool (*called)(const struct wire_call *call);
  void (*reader_left)(void);
};
void answer_listen(const struct answer_listener *by);

// The connection is gone: everybody who waits gets `result`, and so does every later call.
const char *why_lost(int error);  // an errno value of the socket, for people
void answer_lose(CUresult result, const char *why);

#endif
