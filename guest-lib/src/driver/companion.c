#include "driver/companion.h"

#include <stdlib.h>
#include <string.h>

#include "base/ablation.h"
#include "guest_calls.h"
#include "kernels/learnt.h"
#include "kernels/remote_call.h"
#include "memory/memory.h"
#include "session/session.h"
#include "wire/batch.h"
#include "wire/echo.h"
#include "wire/enter.h"

_Bool companion_make(struct session *session) { return session_part(session->companion); }

void companion_start(struct session *session, uint64_t number, unsigned first,
                     const struct server_name *server) {
  *session->companion =
      (struct companion_device){.session.session = number, .first = first, .server = *server};
}

uint64_t companion_number(const struct session *session) {
  return session->companion->session.session;
}

static unsigned devices(struct companion_device *out, unsigned room) {
  // Who only looks does not bring a session back.
  if (guest_is_released() || guest_check(NEEDS_INIT)) return 0;
  for (struct session *session = sessions; session < sessions_end() && session->number < room;
       session++) {
    struct companion_device *device = &out[session->number];
    *device = *session->companion;
    memory_tell(session, &device->session.memory_free, &device->session.memory_total);
  }
  return (unsigned)session_count;
}

static _Bool session(struct companion_session *out) {
  struct companion_device first;
  if (!devices(&first, 1)) return 0;
  *out = first.session;
  return 1;
}

static uint64_t remote_era(void) {
  if (remote_enter()) return 0;
  const struct session *session = session_here();
  return companion_number(session) << 32 | session->events_reset;
}

static _Bool remote_learnt(uint32_t library, learnt_each *each, void *context) {
  return !remote_enter() && learnt_take(session_here(), library, each, context);
}

static void remote_descriptor(void) {
  if (ablated(ABLATE_DESCRIPTORS) && !remote_enter()) echo_ask(session_here());
}

static _Bool remote_unserved(void) {
  if (remote_enter()) return 0;
  struct session *session = session_here();
  if (put_LibraryUnserved(session)) return 0;
  // The program may end for it, and say nothing more.
  batch_send(session);
  return 1;
}

const struct companion_table *companion_table(const CUuuid *id) {
  static const struct companion_table table = {
      sizeof table, session,    devices,       remote_begin,      remote_call,
      remote_end,   remote_era, remote_learnt, remote_descriptor, remote_unserved};
  const CUuuid ours = COMPANION_TABLE;
  return id && memcmp(id, &ours, sizeof ours) == 0 ? &table : NULL;
}
