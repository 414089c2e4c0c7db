// How much device memory each session has and may have, and what was freed but may still be used by
// work sent before.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/notice.h"
#include "guest_calls.h"
#include "memory/internal.h"
#include "memory/pool_hooks.h"
#include "session/session.h"
#include "setup/log.h"
#include "setup/size.h"
#include "wire.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire/order.h"

// Memory that is leaving: it was freed, but work sent before may still use it. Once that work is
// known to be done, an allocation is released by its address, and what has no address by `end`.
struct leaving {
  uint64_t address;
  uint64_t sequence;
  uint64_t beside;
  // What the sessions were sent until then whose devices may use it, too.
  uint64_t borrowers[SESSIONS_MAX];
  void (*end)(struct session *session, void *object, _Bool tell);
  void *object;
};

struct budget {
  uint64_t limit;
  _Bool asks;              // whether the server is asked near the limit
  uint64_t pinned_limit;   // of pinned memory, what does not count towards the limit
  uint64_t pinned;         // bytes of pinned memory that the device reaches
  uint64_t raised;         // what limits of the context were raised by
  uint64_t charged;        // bytes that count towards `limit`
  uint64_t beside;         // of them, those beside the window
  uint64_t leaving_bytes;  // of them, in granules whose every allocation is leaving
  struct leaving *queue;   // [first, first + count) of `room`
  size_t first, count, room;
};

_Bool budget_make(struct session *session) { return session_part(session->budget); }

void memory_join(struct session *session, uint64_t limit, uint64_t pinned, _Bool asks) {
  session->budget->asks = asks;
  session->budget->limit = limit;
  session->budget->pinned_limit = pinned;
}

void budget_round(struct session *session) {
  session->budget->limit &= ~(window_granule() - 1);
  session->budget->pinned_limit &= ~(window_granule() - 1);
}

uint64_t memory_limit(struct session *session) { return session->budget->limit; }
uint64_t memory_unused(struct session *session) {
  const struct budget *budget = session->budget;
  return budget->limit - budget->charged + budget->leaving_bytes;
}

_Bool memory_charge_made(struct session *session, uint64_t bytes) {
  struct budget *budget = session->budget;
  if (bytes > budget->limit || budget->charged > budget->limit - bytes) return 0;
  budget->charged += bytes;
  return 1;
}

// Whether the server has so much left.
static _Bool there_is_room(struct session *session, uint64_t bytes) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_MemoryRoom(session, bytes, &answer);
  // An error of earlier work is for a call that can tell it.
  if (result && answer.result == CUDA_SUCCESS) guest_async_error(session, result);
  _Bool room = answer.result != CUDA_ERROR_OUT_OF_MEMORY;
  answer_free(&answer);
  return room;
}

_Bool memory_near_limit(struct session *session) {
  const struct budget *budget = session->budget;
  return budget->asks && budget->charged > wire_near_limit(budget->limit);
}

_Bool memory_charge(struct session *session, uint64_t bytes) {
  if (!memory_charge_made(session, bytes)) return 0;
  if (!bytes || !memory_near_limit(session) || there_is_room(session, bytes)) return 1;
  memory_discharge(session, bytes);
  return 0;
}

void memory_discharge(struct session *session, uint64_t bytes) {
  session->budget->charged -= bytes;
}

// ---- pinned memory, and limits of the context --------------------------------------------------

_Bool memory_pinned_is_apart(struct session *session) { return session->budget->pinned_limit != 0; }

static uint64_t beyond(uint64_t bytes, uint64_t limit) { return bytes > limit ? bytes - limit : 0; }

_Bool memory_charge_pinned(struct session *session, uint64_t bytes) {
  struct budget *budget = session->budget;
  uint64_t before = beyond(budget->pinned, budget->pinned_limit);
  if (!memory_charge(session, beyond(budget->pinned + bytes, budget->pinned_limit) - before))
    return 0;
  budget->pinned += bytes;
  return 1;
}

void memory_discharge_pinned(struct session *session, uint64_t bytes) {
  struct budget *budget = session->budget;
  uint64_t before = beyond(budget->pinned, budget->pinned_limit);
  budget->pinned -= bytes;
  memory_discharge(session, before - beyond(budget->pinned, budget->pinned_limit));
}

CUresult memory_raise(struct session *session, uint64_t bytes) {
  pthread_mutex_lock(&memory_lock);
  memory_release_settled(session);
  struct budget *budget = session->budget;
  CUresult result = CUDA_SUCCESS;
  if (bytes > budget->raised) {
    uint64_t more = bytes - budget->raised;
    if (!memory_charge_made(session, more)) {
      result = memory_make_room(session);
      if (!result && !memory_charge_made(session, more)) result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) memory_log_shortage(session, more);
  } else {
    memory_discharge(session, budget->raised - bytes);
  }
  if (!result) budget->raised = bytes;
  pthread_mutex_unlock(&memory_lock);
  return result;
}

void memory_log_shortage(struct session *session, uint64_t bytes) {
  const struct budget *budget = session->budget;
  // Some programs take as much as they get, by trying: what they are told once is enough.
  static _Atomic _Bool said;
  char wanted[SIZE_TEXT], used[SIZE_TEXT], limit[SIZE_TEXT];
  size_write(bytes, wanted);
  size_write(budget->charged, used);
  size_write(budget->limit, limit);
  char text[300];
  snprintf(text, sizeof text,
           "out of memory: %s (%llu bytes) wanted, and %s of the session's limit of %s are in use. "
           "More is to be had with OUTBOARD_MEMORY (`outboard run --memory`), as far as the server "
           "has it.",
           wanted, (unsigned long long)bytes, used, limit);
  _Bool again = atomic_exchange(&said, 1);
  if (!again) notice_at_end("memory", text);
  log_write(again ? LOG_WARN : LOG_ERROR, "%s", text);
}

// ---- what is leaving ---------------------------------------------------------------------------

void memory_count_leaving(struct session *session, int64_t bytes) {
  session->budget->leaving_bytes += (uint64_t)bytes;
}
_Bool memory_leaves(struct session *session) {
  return session->budget->count || memory_pools->waits();
}

static _Bool is_settled(const struct leaving *leaving, uint64_t settled) {
  if (leaving->sequence > settled) return 0;
  _Bool good = 1;
  for (struct session *session = sessions; sessions_many() && good && session < sessions_end();
       session++) {
    const uint64_t sequence = leaving->borrowers[session->number];
    good = !sequence || sequence <= context_settled_sequence(session);
  }
  return good;
}

void memory_release_settled(struct session *session) {
  struct budget *budget = session->budget;
  uint64_t settled = context_settled_sequence(session);
  while (budget->count && is_settled(&budget->queue[budget->first], settled)) {
    const struct leaving *first = &budget->queue[budget->first++];
    budget->count--;
    if (!first->end) {
      memory_release(first->address);
      continue;
    }
    budget->leaving_bytes -= first->beside;
    budget->beside -= first->beside;
    memory_discharge(session, first->beside);
    first->end(session, first->object, 1);
  }
  if (!budget->count) budget->first = 0;
  memory_pools->release_settled();
}

_Bool memory_room_to_leave(struct session *session) {
  struct budget *budget = session->budget;
  if (budget->first && budget->first + budget->count == budget->room) {
    memmove(budget->queue, budget->queue + budget->first, budget->count * sizeof *budget->queue);
    budget->first = 0;
  }
  return grow(&budget->queue, &budget->room, budget->first + budget->count, sizeof *budget->queue);
}

static void leave(struct session *session, struct leaving what) {
  struct budget *budget = session->budget;
  what.sequence = batch_sequence(session);
  unsigned borrowers = sessions_many() ? session->borrowers : 0;
  for (struct session *borrower; sessions_take(&borrowers, &borrower);)
    what.borrowers[borrower->number] = batch_sequence(borrower);
  budget->queue[budget->first + budget->count++] = what;
  memory_release_settled(session);
}

void memory_release_later(struct session *session, uint64_t address) {
  leave(session, (struct leaving){.address = address});
}

// ---- beside the window -------------------------------------------------------------------------

CUresult memory_take_beside(struct session *session, uint64_t bytes) {
  pthread_mutex_lock(&memory_lock);
  memory_release_settled(session);
  CUresult result = memory_charge(session, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (result) {
    result = memory_make_room(session);
    if (!result && !memory_charge(session, bytes)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!result) session->budget->beside += bytes;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) memory_log_shortage(session, bytes);
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult memory_leave_beside(struct session *session, uint64_t bytes,
                             void (*end)(struct session *session, void *object, _Bool tell),
                             void *object) {
  pthread_mutex_lock(&memory_lock);
  CUresult result = memory_room_to_leave(session) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) {
    session->budget->leaving_bytes += bytes;
    leave(session, (struct leaving){.beside = bytes, .end = end, .object = object});
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

void memory_forget_leaving(struct session *session) {
  struct budget *budget = session->budget;
  for (size_t i = 0; i < budget->count; i++) {
    const struct leaving *each = &budget->queue[budget->first + i];
    if (each->end) each->end(session, each->object, 0);
  }
  budget->count = budget->first = 0;
  budget->leaving_bytes = 0;
  memory_discharge(session, budget->raised);
  budget->raised = 0;
  memory_discharge(session, budget->beside);
  budget->beside = 0;
}
