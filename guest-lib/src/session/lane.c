#include "session/lane.h"

#include <stdatomic.h>

#include "session/context.h"
#include "session/handle.h"
#include "setup/log.h"

int lane_count = 1;
_Atomic uint8_t lane_borrowers[LANES_MAX];
__thread struct lane_thread lane_thread;

unsigned lane_of_device(int device) {
  return lanes_many() && device_exists(device) ? device_get(device)->lane : 0;
}

int device_of_lane(unsigned lane) {
  for (int device = 0; lanes_many() && device < device_count(); device++)
    if (device_get(device)->lane == lane) return device;
  return 0;
}

int device_here(void) {
  if (lanes_many()) return device_of_lane(lane_here());
  const struct context *context = context_current();
  return context ? context->device : 0;
}

unsigned lane_of_context(uint64_t handle) {
  const struct context *context =
      lanes_many() && handle ? handle_object(WIRE_KIND_CONTEXT, handle) : NULL;
  return context ? lane_of_device(context->device) : 0;
}

void lane_begin(void) {
  lane_thread = (struct lane_thread){lane_of_context(context_current_handle()), 0, 0};
}

CUresult lane_refusal(void) {
  if (!lane_thread.crossed) return CUDA_SUCCESS;
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&said))
    log_warn(
        "a call was given handles or memory of two devices, which have nothing in common: it is "
        "refused (said once)");
  return lane_thread.crossed;
}
