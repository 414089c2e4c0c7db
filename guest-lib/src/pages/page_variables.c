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

void pages_bring_variable(struct session *session, uint64_t address) {
  move_settled(address, session);
}

void pages_send_home(uint64_t address) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = pages_find(address);
  struct session *home = range ? range->home : NULL;
  pthread_mutex_unlock(&pages_lock);
  if (range) move_settled(address, home);
}

static void leave_session(struct range *range, void *context) {
  struct session *session = context;
  if (!range->extents || range->home == session) return;
  if (range->session == session) move(range, range->home);
  for (struct extent *e = range->extents; e; e = e->next) e->at[session->number] = 0;
}

void pages_leave_session(struct session *session) {
  if (!pages_variables || !sessions_many()) return;
  pthread_mutex_lock(&pages_lock);
  pages_each(leave_session, session);
  pthread_mutex_unlock(&pages_lock);
}

// The address of a range that is another session's, and has a variable that the session's device
// has, too; 0: there is none. Work of graphs may use any of them.
struct wanted {
  struct session *session;
  uint64_t address;
};
static void find_wanted(struct range *range, void *context) {
  struct wanted *wanted = context;
  if (wanted->address || !elsewhere(range->address, wanted->session)) return;
  for (const struct extent *e = range->extents; e; e = e->next)
    if (e->at[wanted->session->number]) wanted->address = range->address;
}

void pages_bring_variables(struct session *session) {
  for (;;) {
    struct wanted wanted = {session, 0};
    pthread_mutex_lock(&pages_lock);
    pages_each(find_wanted, &wanted);
    pthread_mutex_unlock(&pages_lock);
    if (!wanted.address) return;
    pages_bring_variable(session, wanted.address);
  }
}
