#include "driver/companion.h"

#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "session/session.h"
#include "wire/enter.h"

_Bool companion_make(struct session *session) {
  if (!session->companion) session->companion = calloc(1, sizeof *session->companion);
  return session->companion != NULL;
}

void companion_start(struct session *session, uint64_t number, unsigned first,
                     const struct server_name *server) {
  *session->companion =
      (struct companion_device){.session.session = number, .first = first, .server = *server};
}

static unsigned devices(struct companion_device *out, unsigned room) {
  if (guest_check(NEEDS_INIT)) return 0;
  for (struct session *session = sessions; session < sessions_end() && session->number < room;
       session++) {
    size_t free, total;
    struct thread_session before = session_switch(session);
    CUresult result = guest_cuMemGetInfo_v2(&free, &total);
    session_back(before);
    if (result) return 0;
    out[session->number] = *session->companion;
    out[session->number].session.memory_total = total;
    out[session->number].session.memory_free = free;
  }
  return (unsigned)session_count;
}

static _Bool session(struct companion_session *out) {
  struct companion_device first;
  if (!devices(&first, 1)) return 0;
  *out = first.session;
  return 1;
}

const struct companion_table *companion_table(const CUuuid *id) {
  static const struct companion_table table = {sizeof table, session, devices};
  const CUuuid ours = COMPANION_TABLE;
  return id && memcmp(id, &ours, sizeof ours) == 0 ? &table : NULL;
}
