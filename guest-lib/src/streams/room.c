#include "streams/room.h"

#include <stdatomic.h>
#include <time.h>

#include "base/thread_role.h"
#include "guest_calls.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/echo.h"
#include "wire/enter.h"
#include "wire/order.h"

// A mark for each quarter of what a stream takes, so that who fills it finds the first quarter free
// again before the last one is used up.
#define MARKS 4
// Of payload, while functions are pending: the server keeps twice as much (session_limits.h).
#define BYTES_BESIDE_FUNCTIONS (UINT64_C(128) << 20)

struct place {
  struct session *session;
  uint64_t wire;
  uint64_t passed;
};

// Whether the stream has come further, or never will.
static _Bool has_moved(const void *what) {
  const struct place *place = what;
  const struct stream_order *order = stream_order(place->session, place->wire);
  return !order || guest_is_lost() || atomic_load(&order->passed) != place->passed ||
         stream_is_settled(place->session, place->wire);
}

// Has the server tell when what is on the stream now is done, once for each place.
static CUresult mark(struct session *session, uint64_t wire, struct stream_order *order,
                     uint64_t marked, uint64_t put) {
  return atomic_compare_exchange_strong(&order->marked, &marked, put)
             ? put_StreamMark(session, wire, put)
             : CUDA_SUCCESS;
}

// How many operations of ours there may be on a stream: the marks need some room, too.
static uint64_t room_of(const struct session *session) {
  const uint64_t most = session->stream_operations, marks = most < 64 ? most / 4 : 2 * MARKS;
  return most - marks;
}

// Until another thread has put what it has taken room for: it is in a call, and waits for nothing
// of the stream.
static void pause_for_others(void) {
  const struct timespec pause = {.tv_nsec = 50000};
  nanosleep(&pause, NULL);
}

// What comes of a look for room.
enum room { ROOM_TAKEN, ROOM_NONE, ROOM_TAKEN_BY_OTHERS, ROOM_FAILED };

// Looks for room, and puts marks where it is time for one.
static enum room look(struct session *session, uint64_t wire, struct stream_order *order,
                      unsigned operations, uint64_t *seen, CUresult *result) {
  const uint64_t most = room_of(session);
  for (;;) {
    const uint64_t put = atomic_load(&order->put), passed = atomic_load(&order->passed);
    const uint64_t marked = atomic_load(&order->marked), from = marked > passed ? marked : passed;
    const _Bool room = stream_take_room(session, wire, order, operations, most);
    if (room && put - from < most / MARKS) return ROOM_TAKEN;
    if (!room && put == passed) return ROOM_TAKEN_BY_OTHERS;
    if (put != passed && stream_is_settled(session, wire)) {
      uint64_t now = passed;
      atomic_compare_exchange_strong(&order->passed, &now, put);
      if (room) return ROOM_TAKEN;
      continue;
    }
    if (put - from >= most / MARKS || from == passed) {
      *result = mark(session, wire, order, marked, put);
      if (*result) return ROOM_FAILED;
    }
    *seen = passed;
    return room ? ROOM_TAKEN : ROOM_NONE;
  }
}

CUresult room_wait(struct session *session, uint64_t wire, unsigned operations) {
  stream_leave_room(CUDA_SUCCESS);
  for (;;) {
    struct stream_order *order = stream_order(session, wire);
    if (!order) return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    uint64_t seen = 0;
    const enum room found = look(session, wire, order, operations, &seen, &result);
    if (found == ROOM_TAKEN || found == ROOM_FAILED) return result;
    if (found == ROOM_NONE) {
      batch_send(session);
      const struct place place = {session, wire, seen};
      answer_read_until(session, has_moved, &place);
    } else {
      pause_for_others();
    }
    if (guest_is_lost()) return guest_lost();
  }
}

_Bool room_for_query(struct session *session, uint64_t wire) {
  struct stream_order *order = session->stream_operations ? stream_order(session, wire) : NULL;
  if (!order) return 1;
  stream_leave_room(CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  uint64_t seen;
  switch (look(session, wire, order, 1, &seen, &result)) {
    case ROOM_TAKEN:
      return 1;
    case ROOM_FAILED:
      return 1;  // the question fails as well
    default:
      batch_send(session);
      answer_poll(session);
      return 0;
  }
}

void room_await_server(struct session *session, uint64_t bytes) {
  if (thread_role.awaited || thread_role.in_function) return;
  // Counted first: to look for such work takes a lock.
  if (atomic_fetch_add(&session->beside_functions, bytes) + bytes < BYTES_BESIDE_FUNCTIONS) return;
  atomic_store(&session->beside_functions, 0);
  if (pending_any()) echo_ask(session);
}
