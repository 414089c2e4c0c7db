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

// Where copies go while their own stream is held.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult find_aside(struct session *session, uint64_t *stream) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  uint64_t *aside = &session->late_stream;
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
  const void *source = box_pointer(&copy->from);
  const uint64_t bytes = box_span(&copy->from, &copy->box);
  if (!host_is_pinned(source, bytes)) return 0;
  // It may be on its way to either place where the library has pinned memory.
  return pending_any() || (answer_outstanding(copy->session) &&
                           (answer_lands_in(copy->session, source, bytes) ||
                            answer_lands_in(copy->session, host_view(source), bytes)));
}

// With a copy on the stream aside.
static void run(void *data) {
  struct copy *late = data;
  struct thread_session before = session_switch(late->session);
  if (!copy_upload(late)) stream_synchronize(late->session, late->stream);
  session_back(before);
  free(late);
}

CUresult late_upload(const struct copy *copy) {
  struct copy *late = malloc(sizeof *late);
  if (!late) return CUDA_ERROR_OUT_OF_MEMORY;
  *late = *copy;
  CUresult result = find_aside(copy->session, &late->stream);
  if (!result) result = host_function_post(copy->session, copy->stream, run, late);
  if (result) free(late);
  return result;
}
