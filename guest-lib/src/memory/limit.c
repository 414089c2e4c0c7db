// How much device memory the session has and may have, and what was freed but may still be used by
// work sent before. By lane, as each device has its own limit.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "guest_calls.h"
#include "memory/internal.h"
#include "session/lane.h"
#include "setup/log.h"
#include "setup/size.h"
#include "wire.h"
#include "wire/batch.h"
#include "wire/order.h"

// Freed, but work sent before may still use it: given back once that is known to be done. An
// allocation by its address; what lies beside the window by `end`.
struct leaving {
  uint64_t address;
  uint64_t sequence;
  uint64_t beside;
  // What the lanes were sent until then whose devices may use it, too.
  uint64_t visitors[LANES_MAX];
  void (*end)(void *object, _Bool tell);
  void *object;
};

static struct account {
  uint64_t limit;
  uint64_t pinned_limit;   // of pinned memory, what does not count towards the limit
  uint64_t pinned;         // bytes of pinned memory that the device reaches
  uint64_t raised;         // what limits of the context were raised by
  uint64_t charged;        // bytes the session has on the server, less what has limits of its own
  uint64_t beside;         // of them, those beside the window
  uint64_t leaving_bytes;  // of them, in granules whose every allocation is leaving
  struct leaving *queue;   // [first, first + count) of `room`
  size_t first, count, room;
} accounts[LANES_MAX];

// That of the thread's lane.
static struct account *here(void) { return &accounts[lane_here()]; }

void memory_join(uint64_t limit, uint64_t pinned) {
  here()->limit = limit & ~(uint64_t)(WIRE_GRANULE - 1);
  here()->pinned_limit = pinned & ~(uint64_t)(WIRE_GRANULE - 1);
}

uint64_t memory_limit(void) { return here()->limit; }
uint64_t memory_unused(void) {
  const struct account *account = here();
  return account->limit - account->charged + account->leaving_bytes;
}

_Bool memory_charge(uint64_t bytes) {
  struct account *account = here();
  if (bytes > account->limit || account->charged > account->limit - bytes) return 0;
  account->charged += bytes;
  return 1;
}

void memory_discharge(uint64_t bytes) { here()->charged -= bytes; }

// ---- what has a limit of its own ---------------------------------------------------------------

_Bool memory_pinned_is_apart(void) { return here()->pinned_limit != 0; }

static uint64_t beyond(uint64_t bytes, uint64_t limit) { return bytes > limit ? bytes - limit : 0; }

_Bool memory_charge_pinned(uint64_t bytes) {
  struct account *account = here();
  uint64_t before = beyond(account->pinned, account->pinned_limit);
  if (!memory_charge(beyond(account->pinned + bytes, account->pinned_limit) - before)) return 0;
  account->pinned += bytes;
  return 1;
}

void memory_discharge_pinned(uint64_t bytes) {
  struct account *account = here();
  uint64_t before = beyond(account->pinned, account->pinned_limit);
  account->pinned -= bytes;
  memory_discharge(before - beyond(account->pinned, account->pinned_limit));
}

CUresult memory_raise(uint64_t bytes) {
  pthread_mutex_lock(&memory_lock);
  memory_release_settled();
  struct account *account = here();
  CUresult result = CUDA_SUCCESS;
  if (bytes > account->raised) {
    uint64_t more = bytes - account->raised;
    if (!memory_charge(more)) {
      result = memory_make_room();
      if (!result && !memory_charge(more)) result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) memory_log_shortage(more);
  } else {
    memory_discharge(account->raised - bytes);
  }
  if (!result) account->raised = bytes;
  pthread_mutex_unlock(&memory_lock);
  return result;
}

void memory_log_shortage(uint64_t bytes) {
  const struct account *account = here();
  // Some programs take as much as they get, by trying: what they are told once is enough.
  static _Atomic _Bool said;
  char wanted[SIZE_TEXT], used[SIZE_TEXT], limit[SIZE_TEXT];
  size_write(bytes, wanted);
  size_write(account->charged, used);
  size_write(account->limit, limit);
  log_write(atomic_exchange(&said, 1) ? LOG_WARN : LOG_ERROR,
            "out of memory: %s (%llu bytes) wanted, and %s of the session's %s are in use. More is "
            "to be had with OUTBOARD_MEMORY, as far as the server has it.",
            wanted, (unsigned long long)bytes, used, limit);
}

// ---- what is leaving ---------------------------------------------------------------------------

void memory_count_leaving(int64_t bytes) { here()->leaving_bytes += (uint64_t)bytes; }
_Bool memory_leaves(void) { return here()->count || pool_waits(); }

static _Bool is_settled(const struct leaving *leaving, uint64_t settled) {
  if (leaving->sequence > settled) return 0;
  _Bool good = 1;
  for (unsigned lane = 0; lanes_many() && good && lane < (unsigned)lane_count; lane++) {
    if (!leaving->visitors[lane]) continue;
    struct lane_thread before = lane_enter(lane);
    good = leaving->visitors[lane] <= context_settled_sequence();
    lane_leave(before);
  }
  return good;
}

void memory_release_settled(void) {
  struct account *account = here();
  uint64_t settled = context_settled_sequence();
  while (account->count && is_settled(&account->queue[account->first], settled)) {
    const struct leaving *first = &account->queue[account->first++];
    account->count--;
    if (!first->end) {
      memory_release(first->address);
      continue;
    }
    account->leaving_bytes -= first->beside;
    account->beside -= first->beside;
    memory_discharge(first->beside);
    first->end(first->object, 1);
  }
  if (!account->count) account->first = 0;
  pool_release_settled();
}

_Bool memory_room_to_leave(void) {
  struct account *account = here();
  if (account->first && account->first + account->count == account->room) {
    memmove(account->queue, account->queue + account->first,
            account->count * sizeof *account->queue);
    account->first = 0;
  }
  return grow(&account->queue, &account->room, account->first + account->count,
              sizeof *account->queue);
}

static void leave(struct leaving what) {
  struct account *account = here();
  what.sequence = batch_sequence();
  unsigned visitors = lanes_many() ? lane_borrowers[lane_here()] : 0;
  for (unsigned lane; lanes_take(&visitors, &lane);) {
    struct lane_thread before = lane_enter(lane);
    what.visitors[lane] = batch_sequence();
    lane_leave(before);
  }
  account->queue[account->first + account->count++] = what;
  memory_release_settled();
}

void memory_release_later(uint64_t address) { leave((struct leaving){.address = address}); }

// ---- beside the window -------------------------------------------------------------------------

CUresult memory_take_beside(uint64_t bytes) {
  pthread_mutex_lock(&memory_lock);
  memory_release_settled();
  CUresult result = memory_charge(bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (result) {
    result = memory_make_room();
    if (!result && !memory_charge(bytes)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!result) here()->beside += bytes;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) memory_log_shortage(bytes);
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult memory_leave_beside(uint64_t bytes, void (*end)(void *object, _Bool tell), void *object) {
  pthread_mutex_lock(&memory_lock);
  CUresult result = memory_room_to_leave() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) {
    here()->leaving_bytes += bytes;
    leave((struct leaving){.beside = bytes, .end = end, .object = object});
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

void memory_forget_leaving(void) {
  struct account *account = here();
  for (size_t i = 0; i < account->count; i++) {
    const struct leaving *each = &account->queue[account->first + i];
    if (each->end) each->end(each->object, 0);
  }
  account->count = account->first = 0;
  account->leaving_bytes = 0;
  memory_discharge(account->raised);
  account->raised = 0;
  memory_discharge(account->beside);
  account->beside = 0;
}
