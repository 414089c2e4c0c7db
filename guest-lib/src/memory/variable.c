// Variables of modules, which lie where the driver put them, outside the window.
#include "memory/variable.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/own_memory.h"
#include "memory/internal.h"
#include "memory/memory.h"
#include "memory/peer.h"
#include "pages/page_ranges.h"
#include "session/session.h"
#include "setup/log.h"

static struct variable {
  uint64_t address, size, id;
  struct session *session;
  _Bool managed;
} * variables;
static _Atomic size_t count;  // read without the lock, to see that there are none
static size_t room;
// All variables that there ever were lie between these. Most addresses that are asked about do not.
static _Atomic uint64_t lowest = UINT64_MAX, highest;

// Servers know nothing of each other, so that variables of two sessions may lie at one address.
_Bool variable_find(struct session *session, uint64_t address, struct allocation *found) {
  _Bool there = 0;
  for (size_t i = 0; i < count; i++) {
    if (address - variables[i].address >= variables[i].size) continue;
    if (there && variables[i].session != session) continue;
    there = 1;
    *found =
        (struct allocation){.kind = variables[i].managed ? ALLOCATION_MANAGED : ALLOCATION_VARIABLE,
                            .session = variables[i].session,
                            .device = device_of_session(variables[i].session),
                            .address = variables[i].address,
                            .size = variables[i].size,
                            .id = variables[i].id,
                            .access = ACCESS_ALL};
  }
  return there;
}

_Bool variables_exist(void) { return count != 0; }

_Bool variable_is_out_of_reach(struct session *session, uint64_t address) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  struct allocation found;
  if (address < lowest || address >= highest) return 0;
  pthread_mutex_lock(&memory_lock);
  _Bool there = variable_find(session, address, &found);
  pthread_mutex_unlock(&memory_lock);
  if (!there || found.kind == ALLOCATION_MANAGED ||
      !sessions_have(found.session->peer_open_to, session))
    return 0;
  if (!atomic_flag_test_and_set(&said))
    log_warn(
        "a kernel for device %d was given the address of a module's variable on device %d: it "
        "reaches what is allocated there, but no variables, and is not launched (said once)",
        device_of_session(session), found.device);
  return 1;
}

// Page by page, which takes a call of the kernel each: of a large variable, or of one that is as
// large as a server says, only the beginning is looked at.
#define LOOKED_AT (4u << 20)

// The window was free in this process; where variables lie, the server's driver chose by itself.
static void tell_of_own_memory(uint64_t address, uint64_t size) {
  static _Atomic _Bool said;
  if (atomic_load(&said)) return;
  const uint64_t end = address + (size < LOOKED_AT ? size : LOOKED_AT);
  if (end < address || !own_is_there((uintptr_t)address, (uintptr_t)end) ||
      atomic_exchange(&said, 1))
    return;
  log_warn(
      "a module's variable lies at 0x%llx on the device, where this program has memory of its own: "
      "calls that take addresses of both kinds, such as cuMemcpy, take it for the variable (said "
      "once)",
      (unsigned long long)address);
}

void memory_add_variable(struct session *session, uint64_t address, uint64_t size, _Bool managed) {
  // A managed one is meant to be memory of the program's, too.
  if (!managed && size) tell_of_own_memory(address, size);
  pthread_mutex_lock(&memory_lock);
  if (grow(&variables, &room, count, sizeof *variables)) {
    variables[count] = (struct variable){address, size, memory_next_id(), session, managed};
    count++;
    if (address < lowest) lowest = address;
    if (address + size > highest) highest = address + size;
  }
  pthread_mutex_unlock(&memory_lock);
}

void memory_remove_variable(struct session *session, uint64_t address) {
  pthread_mutex_lock(&memory_lock);
  for (size_t i = 0; i < count; i++)
    if (variables[i].address == address && variables[i].session == session) {
      if (variables[i].managed) pages_unshare_variable(address);
      variables[i] = variables[--count];
      break;
    }
  pthread_mutex_unlock(&memory_lock);
}

void variables_forget_all(struct session *session) {
  for (size_t i = 0; i < count;) {
    if (variables[i].session != session) {
      i++;
      continue;
    }
    if (variables[i].managed) pages_unshare_variable(variables[i].address);
    variables[i] = variables[--count];
  }
}
