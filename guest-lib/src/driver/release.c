#include "driver/release.h"

#include "base/stats.h"
#include "driver/companion.h"
#include "driver/internal.h"
#include "driver/primary_context.h"
#include "kernels/expected.h"
#include "kernels/learnt.h"
#include "memory/limit.h"
#include "session/device.h"
#include "session/session.h"
#include "setup/clock.h"
#include "setup/config.h"
#include "setup/log.h"
#include "streams/host_function.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire/region.h"

// The program knows its device, and keeps what it knows.
static CUresult check_devices(void) {
  for (int device = 0; device < device_count(); device++) {
    if (device_is_alike(device, gathered.all, gathered.count)) continue;
    log_error(
        "the session was released, and one like it cannot be had: its GPU was %s, and the server "
        "gives another kind (%s). Name servers with GPUs of one kind in OUTBOARD_SERVER",
        device_get(device)->name, gathered.count ? gathered.all[0].name : "none");
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  return CUDA_SUCCESS;
}

// In place of a session that was released. The environment is read again: tokens change.
static CUresult try_attach_again(void) {
  static struct config config;
  CUresult result = config_read(&config);
  if (result) return result;
  config.gpus = 1;
  struct session *session = sessions;
  uint64_t since = clock_ns();
  gather_anew();
  result = attach_session(session, &config, &kept_window);
  if (!result) result = check_devices();
  if (result) {
    connection_close_of(session);
    return result;
  }
  budget_round(session);
  connection_watch(session);
  expected_start(session);
  learnt_start(session);
  stats_add(&guest_stats->attach_ns, clock_ns() - since);
  return CUDA_SUCCESS;
}

CUresult attach_again(void) {
  pthread_mutex_lock(&attach_lock);
  CUresult result = CUDA_SUCCESS;
  if (guest_is_released()) {
    result = attach_waiting(try_attach_again);
    if (!result) {
      guest_set_released(0);
      answer_read_again(sessions);
    }
  }
  pthread_mutex_unlock(&attach_lock);
  return result;
}

// With both locks (primary_contexts_leave), when the server is at rest.
static const char *leave_session(void) {
  struct session *session = sessions;
  if (host_functions_may_come()) return "functions of the program are still to be called";
  if (session->region_state == REGION_OPEN) return "it shares memory with the server";
  if (!answer_release(session)) return "a call is under way";
  if (!batch_release(session)) {
    answer_read_again(session);
    return "a call is under way";
  }
  connection_close_of(session);
  session->region_state = REGION_NONE;
  connection_begin_anew(session);
  answer_begin_anew(session);
  return NULL;
}

const char *release(uint64_t *number) {
  pthread_mutex_lock(&attach_lock);
  const char *why = NULL;
  *number = companion_number(sessions);
  if (guest_is_lost())
    why = "its connection is lost";
  else if (session_count > 1)
    why = "the program has several GPUs";
  else if (!guest_is_released())
    why = primary_contexts_leave(leave_session);
  pthread_mutex_unlock(&attach_lock);
  return why;
}
