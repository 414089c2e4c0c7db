#include "driver/hooks.h"

#include "capture/recorder.h"
#include "streams/listen.h"

void hooks_set(void) {
  streams_listen();
  capture_start();
}
