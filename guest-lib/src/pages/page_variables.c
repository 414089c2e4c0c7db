// Managed variables of a library that several devices have: one for all of them and the host. Each
// device has bytes of its own, at an address of its own; at any time those of one device, or the
// host's, are the variable's, and the others are out of date.
#include "pages/page_variables.h"

#include <pthread.h>
#include <stdatomic.h>

#include "pages/internal.h"
#include "wire/order.h"

_Atomic unsigned pages_variables;
_Atomic uint64_t pages_moves;

static struct extent *extent_at(const struct range *range, uint64_t address) {
  struct extent *extent = range ? range->extents : NULL;
  while (extent && address - extent->begin >= extent->end - extent->begin) extent = extent->next;
  return extent;
}

void pages_variable_lies(struct session *session, uint64_t address, uint64_t there) {
  pthread_mutex_lock(&pages_lock);
  struct extent *extent = extent_at(pages_find(address), address);
  if (extent) extent->at[session->number] = there;
  pthread_mutex_unlock(&pages_lock);
}

uint64_t pages_variable_here(struct session *session, uint64_t address) {
  pthread_mutex_lock(&pages_lock);
  const struct extent *extent = extent_at(pages_find(address), address);
  uint64_t there = extent ? extent->at[session->number] : 0;
  uint64_t here = there ? there + (address - extent->begin) : 0;
  pthread_mutex_unlock(&pages_lock);
  return here;
}

// Returns the range at an address if it has variables and is another session's, else NULL. The
// caller holds the lock.
static struct range *elsewhere(uint64_t address, struct session *session) {
  struct range *range = pages_find(address);
  return range && range->extents && range->session != session ? range : NULL;
}

// Moves a range to a session. The caller holds the lock.
static void move(struct range *range, struct session *session) {
  pages_open_whole(range);
  range->session = session;
  pages_moves++;
}

// Moves a range once the work of its session is done. That is not waited for with the lock held, as
// functions of the program may touch pages meanwhile.
static void move_settled(uint64_t address, struct session *session) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = elsewhere(address, session);
  const struct session *from = range ? range->session : session;
  pthread_mutex_unlock(&pages_lock);
  if (!range) return;
  sessions_settle(session_bit(from));
  pthread_mutex_lock(&pages_lock);
  if ((range = elsewhere(address, session))) move(range, session);
  pthread_mutex_unlock(&pages_lock);
}

void pages_bring_variable(uint64_t address) { move_settled(address, session_here()); }

void pages_send_home(uint64_t address) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = pages_find(address);
  struct session *home = range ? range->home : NULL;
  pthread_mutex_unlock(&pages_lock);
  if (range) move_settled(address, home);
}

static void leave_session(struct range *range) {
  struct session *session = session_here();
  if (!range->extents || range->home == session) return;
  if (range->session == session) move(range, range->home);
  for (struct extent *e = range->extents; e; e = e->next) e->at[session->number] = 0;
}

void pages_leave_session(void) {
  if (!pages_variables || !sessions_many()) return;
  pthread_mutex_lock(&pages_lock);
  pages_each(leave_session);
  pthread_mutex_unlock(&pages_lock);
}

// The address of a range that is another session's, and has a variable that the device of the
// thread's session has, too. Work of graphs may use any of them.
static uint64_t wanted_here;
static void find_wanted(struct range *range) {
  struct session *session = session_here();
  if (wanted_here || !elsewhere(range->address, session)) return;
  for (const struct extent *e = range->extents; e; e = e->next)
    if (e->at[session->number]) wanted_here = range->address;
}

void pages_bring_variables(void) {
  for (uint64_t address;;) {
    pthread_mutex_lock(&pages_lock);
    wanted_here = 0;
    pages_each(find_wanted);
    address = wanted_here;
    pthread_mutex_unlock(&pages_lock);
    if (!address) return;
    pages_bring_variable(address);
  }
}
