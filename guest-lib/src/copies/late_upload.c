#include "copies/late_upload.h"

#include <pthread.h>
#include <stdlib.h>

#include "guest_calls.h"
#include "memory/host_memory.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/host_function.h"
#include "streams/pending.h"
#include "streams/stream.h"
#include "wire/answer.h"

struct late {
  struct box_end to, from;
  struct box box;
  uint64_t aside;
  unsigned session;
};

// Where copies go while their own stream is held.
static uint64_t asides[SESSIONS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult find_aside(uint64_t *stream) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  uint64_t *aside = &asides[session_here()];
  if (!*aside || handle_check(WIRE_KIND_STREAM, *aside)) {
    CUstream made;
    result = guest_cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
    if (!result) *aside = handle_of(made);
  }
  *stream = *aside;
  pthread_mutex_unlock(&lock);
  return result;
}

_Bool late_is_due(const void *source, uint64_t bytes) {
  if (!pending_seen && !answers_expected()) return 0;
  if (!host_is_pinned(source, bytes)) return 0;
  // It may be on its way to either place where the library has pinned memory.
  return pending_any() || (answer_outstanding() && (answer_lands_in(source, bytes) ||
                                                    answer_lands_in(host_view(source), bytes)));
}

static void run(void *data) {
  struct late *late = data;
  struct thread_session before = session_switch(late->session);
  if (!box_upload(&late->to, &late->from, &late->box, late->aside)) stream_synchronize(late->aside);
  session_back(before);
  free(late);
}

CUresult late_upload(const struct box_end *to, const struct box_end *from, const struct box *box,
                     uint64_t stream) {
  struct late *late = malloc(sizeof *late);
  if (!late) return CUDA_ERROR_OUT_OF_MEMORY;
  *late = (struct late){*to, *from, *box, 0, session_here()};
  CUresult result = find_aside(&late->aside);
  if (!result) result = host_function_post(stream, run, late);
  if (result) free(late);
  return result;
}
