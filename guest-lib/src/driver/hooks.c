#include "driver/hooks.h"

#include <stddef.h>

#include "allocation/pools.h"
#include "capture/recorder.h"
#include "driver/companion.h"
#include "images/image_sending.h"
#include "kernels/expected.h"
#include "kernels/learnt.h"
#include "memory/limit.h"
#include "session/session.h"
#include "streams/listen.h"
#include "streams/pending.h"
#include "streams/stream.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/connection.h"
#include "wire/order.h"
#include "wire/region.h"

void hooks_set(void) {
  streams_listen();
  pools_start();
  capture_start();
}

_Bool sessions_make(unsigned count) {
  _Bool (*const parts[])(struct session * session) = {
      connection_make, outbox_make, inbox_make,        order_make,    region_make,    stream_make,
      pending_make,    budget_make, known_images_make, expected_make, companion_make, learnt_make,
  };
  for (unsigned i = 0; i < count; i++)
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
      if (!parts[part](&sessions[i])) return 0;
  return 1;
}
