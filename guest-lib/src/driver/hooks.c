#include "driver/hooks.h"

#include "allocation/pools.h"
#include "capture/recorder.h"
#include "streams/listen.h"

void hooks_set(void) {
  streams_listen();
  pools_start();
  capture_start();
}
