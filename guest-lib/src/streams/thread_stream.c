// The default stream that a thread has to itself, where the program asked for such: one in each
// context that the thread uses it in, made when it is first used, destroyed when the thread ends.
#include <pthread.h>
#include <stdlib.h>

#include "session/context.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/internal.h"
#include "streams/stream.h"
#include "wire/enter.h"

struct thread_stream {
  uint64_t context, wire;
  struct thread_stream *next;
};

// The one used last comes first.
static __thread struct thread_stream *mine;

// A key of pthreads, whose destructor runs again for what other destructors make anew. The library
// is never unloaded (-z nodelete), so it stays there to be called.
static pthread_key_t key;

static void end_thread(void *unused) {
  (void)unused;
  struct thread_stream *list = mine;
  mine = NULL;
  while (list) {
    struct thread_stream *next = list->next;
    if (!guest_is_child() && !guest_is_lost()) stream_end(list->wire);
    free(list);
    list = next;
  }
}

static void make_key(void) { pthread_key_create(&key, end_thread); }

static struct thread_stream *add(uint64_t context) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_key);
  struct thread_stream *stream = malloc(sizeof *stream);
  if (!stream) return NULL;
  *stream = (struct thread_stream){context, 0, mine};
  mine = stream;
  pthread_setspecific(key, stream);
  return stream;
}

CUresult thread_stream_of_caller(uint64_t *wire) {
  uint64_t context = context_current_handle();
  if (sessions_many()) session_follow(session_of_context(context), CUDA_ERROR_INVALID_HANDLE);
  struct thread_stream *stream = mine;
  if (!stream || stream->context != context) {
    struct thread_stream **link = &mine;
    while (*link && (*link)->context != context) link = &(*link)->next;
    stream = *link;
    if (stream) {
      *link = stream->next;
      stream->next = mine;
      mine = stream;
    } else if (!(stream = add(context))) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  // A reset of the context ends this stream like any other, so its handle may be stale.
  if (!stream->wire || !handle_object(WIRE_KIND_STREAM, stream->wire)) {
    struct thread_session before = session_switch(session_of_context(context));
    CUresult result = stream_begin(session_here(), &stream->wire);
    session_back(before);
    if (result) return result;
  }
  *wire = stream->wire;
  return CUDA_SUCCESS;
}
