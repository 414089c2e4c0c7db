#include "wire/enter.h"

#include <pthread.h>

#include "abi_lookup.h"
#include "abi_process.h"
#include "abi_refusal.h"
#include "abi_result.h"
#include "base/notice.h"
#include "base/thread_role.h"
#include "base/trace.h"
#include "wire/connection.h"

// Reasons to stop a call, as bits of guest_obstacles.
enum {
  NOT_READY = 1,
  CHILD = 2,
  LOST = 4,
  POISONED = 8,
  HOST_FUNCTIONS = 16,
  INACTIVE = 32,
  RELEASED = 64
};

_Atomic int guest_obstacles = NOT_READY;
static _Atomic int lost_result;
static _Atomic _Bool attaching;

static CUresult cannot_attach(void) { return CUDA_ERROR_DEVICE_UNAVAILABLE; }
static CUresult (*attach_again)(void) = cannot_attach;

void guest_attach_again_by(CUresult (*again)(void)) { attach_again = again; }

CUresult guest_check(enum needs needs) {
  int condition = atomic_load(&guest_obstacles);
  if (guest_is_child() || condition & NOT_READY) return CUDA_ERROR_NOT_INITIALIZED;
  if (condition & HOST_FUNCTIONS && thread_role.in_function) return CUDA_ERROR_NOT_PERMITTED;
  if (condition & LOST) return (CUresult)atomic_load(&lost_result);
  if (condition & RELEASED) {
    CUresult result = attach_again();
    if (result) return result;
  }
  if (condition & INACTIVE && needs == NEEDS_CONTEXT) {
    CUresult unusable = context_unusable();
    if (unusable) return unusable;
  }
  if (condition & POISONED && needs >= NEEDS_OBJECT)
    return (CUresult)atomic_load(&session_here()->poison);
  return CUDA_SUCCESS;
}

// CUDA contexts do not survive a fork. The child keeps neither the socket (the session must end
// with the parent) nor any lock that another thread held, be it in the middle of attaching. After
// an attach that failed there is nothing to inherit.
static void in_child(void) {
  if (atomic_load(&guest_obstacles) & NOT_READY && !atomic_load(&attaching)) return;
  atomic_fetch_or(&guest_obstacles, CHILD);
  connection_close();
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

void guest_attaching(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  abi_process_begin();
  atomic_store(&attaching, 1);
}

void guest_attached(_Bool success) {
  if (success) atomic_fetch_and(&guest_obstacles, ~NOT_READY);
  atomic_store(&attaching, 0);
}

void guest_watch_host_functions(void) { atomic_fetch_or(&guest_obstacles, HOST_FUNCTIONS); }

void guest_watch_contexts(_Bool some_inactive) {
  if (some_inactive)
    atomic_fetch_or(&guest_obstacles, INACTIVE);
  else
    atomic_fetch_and(&guest_obstacles, ~INACTIVE);
}

// A child that fork() made was told so. One of clone() finds out: it has the socket all the same,
// and uses it for nothing.
_Bool guest_is_child(void) {
  const int condition = atomic_load(&guest_obstacles);
  if (condition & CHILD) return 1;
  return abi_process_is_child() && (!(condition & NOT_READY) || atomic_load(&attaching));
}

void guest_set_lost(CUresult result) {
  int none = 0;
  atomic_compare_exchange_strong(&lost_result, &none, (int)result);
  atomic_fetch_or(&guest_obstacles, LOST);
}

void guest_set_released(_Bool released) {
  if (released)
    atomic_fetch_or(&guest_obstacles, RELEASED);
  else
    atomic_fetch_and(&guest_obstacles, ~RELEASED);
}

_Bool guest_is_released(void) { return (atomic_load(&guest_obstacles) & RELEASED) != 0; }

_Bool guest_may_send(void) { return !(atomic_load(&guest_obstacles) & (LOST | RELEASED)); }

_Bool guest_is_lost(void) { return (atomic_load(&guest_obstacles) & LOST) != 0; }

CUresult guest_lost(void) {
  int result = atomic_load(&lost_result);
  if (!result) result = (int)session_mixed_error();
  return result ? (CUresult)result : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

// Errors after which the driver answers every call in the context with the same error.
static _Bool poisons(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return 1;
    default:
      return 0;
  }
}

void guest_note_result(struct session *session, CUresult result) {
  if (!poisons(result)) return;
  int none = 0;
  atomic_compare_exchange_strong(&session->poison, &none, (int)result);
  atomic_fetch_or(&guest_obstacles, POISONED);
}

// Only the server knows how much it was, as of stacks of kernels.
static void tell_shortage(void) {
  notice_at_end(
      "memory",
      "out of memory: work that was sent, such as a kernel with large stacks, wanted more "
      "than the session's limit has left. More is to be had with OUTBOARD_MEMORY "
      "(`outboard run --memory`), as far as the server has it.");
}

void guest_async_error(struct session *session, CUresult result) {
  guest_note_result(session, result);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) tell_shortage();
  if (result == CUDA_SUCCESS || poisons(result)) return;
  int none = 0;
  atomic_compare_exchange_strong(&session->kept_error, &none, (int)result);
}

CUresult guest_take_async_error(struct session *session) {
  if (atomic_load(&guest_obstacles) & POISONED) {
    int sticky = atomic_load(&session->poison);
    if (sticky) return (CUresult)sticky;
  }
  return (CUresult)atomic_exchange(&session->kept_error, 0);
}

void guest_clear_errors(struct session *session) {
  atomic_store(&session->kept_error, 0);
  atomic_store(&session->poison, 0);
  for (struct session *other = sessions; other < sessions_end(); other++)
    if (atomic_load(&other->poison)) return;
  atomic_fetch_and(&guest_obstacles, ~POISONED);
}

int abi_unsupported(int entry) {
  static _Atomic unsigned char named[ABI_ENTRY_COUNT];
  stats_add(&guest_stats->calls, 1);
  stats_add(&guest_stats->unsupported, 1);
  if (trace_on()) trace_unsupported(entry);
  const CUresult result = abi_refusal(abi_entries[entry].name);
  if (!atomic_exchange(&named[entry], 1))
    log_warn("%s is not served: the program gets %s (said once)", abi_entries[entry].name,
             abi_result_name(result));
  return result;
}

CUresult guest_not_served(_Atomic _Bool *said, const char *what) {
  stats_add(&guest_stats->unsupported, 1);
  if (!atomic_exchange(said, 1))
    log_warn("%s are not served: the program gets CUDA_ERROR_NOT_SUPPORTED (said once)", what);
  return CUDA_ERROR_NOT_SUPPORTED;
}
