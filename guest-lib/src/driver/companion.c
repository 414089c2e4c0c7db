#include "driver/companion.h"

#include <string.h>

#include "guest_calls.h"
#include "session/lane.h"
#include "wire/enter.h"

// Set at attach, by lane.
static struct companion_device known[LANES_MAX];

void companion_start(uint64_t session, unsigned first, const struct server_name *server) {
  known[lane_here()] =
      (struct companion_device){.session.session = session, .first = first, .server = *server};
}

static unsigned devices(struct companion_device *out, unsigned room) {
  if (guest_refuse(NEEDS_INIT)) return 0;
  for (unsigned lane = 0; lane < (unsigned)lane_count && lane < room; lane++) {
    size_t free, total;
    struct lane_thread before = lane_enter(lane);
    CUresult result = guest_cuMemGetInfo_v2(&free, &total);
    lane_leave(before);
    if (result) return 0;
    out[lane] = known[lane];
    out[lane].session.memory_total = total;
    out[lane].session.memory_free = free;
  }
  return (unsigned)lane_count;
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
