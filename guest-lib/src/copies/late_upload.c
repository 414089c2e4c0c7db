#include "copies/late_upload.h"

#include <pthread.h>
#include <stdlib.h>

#include "copies/upload.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/host_function.h"
#include "streams/stream.h"

struct late {
  struct copy copy;  // on a stream aside
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

_Bool late_is_due_slow(const struct copy *copy) {
  const void *source = (const void *)(uintptr_t)copy->from.address;
  const uint64_t bytes = box_span(&copy->from, &copy->box);
  if (!host_is_pinned(source, bytes)) return 0;
  // It may be on its way to either place where the library has pinned memory.
  return pending_any() || (answer_outstanding() && (answer_lands_in(source, bytes) ||
                                                    answer_lands_in(host_view(source), bytes)));
}

static void run(void *data) {
  struct late *late = data;
  struct thread_session before = session_switch(late->session);
  if (!copy_upload(&late->copy)) stream_synchronize(late->copy.stream);
  session_back(before);
  free(late);
}

CUresult late_upload(const struct copy *copy) {
  struct late *late = malloc(sizeof *late);
  if (!late) return CUDA_ERROR_OUT_OF_MEMORY;
  *late = (struct late){*copy, session_here()};
  CUresult result = find_aside(&late->copy.stream);
  if (!result) result = host_function_post(copy->stream, run, late);
  if (result) free(late);
  return result;
}
