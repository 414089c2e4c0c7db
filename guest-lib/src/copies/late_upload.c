#include "copies/late_upload.h"

#include <pthread.h>
#include <stdlib.h>

#include "copies/on_host.h"
#include "copies/upload.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "pages/merged.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/host_function.h"
#include "streams/room.h"
#include "streams/stream.h"
#include "wire/enter.h"

_Bool late_is_due_slow(const struct copy *copy) {
  const void *source = box_pointer(&copy->from);
  const uint64_t bytes = box_span(&copy->from, &copy->box);
  if (!host_is_pinned(source, bytes)) return 0;
  // It may be on its way to either place where the library has pinned memory.
  return pending_any() || (answer_outstanding(copy->session) &&
                           (answer_lands_in(copy->session, source, bytes) ||
                            answer_lands_in(copy->session, host_view(source), bytes)));
}

// Where copies go while their own stream is held.
static CUresult find_aside(struct session *session, uint64_t *stream) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  uint64_t *aside = &session->late_stream;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  if (!handle_is_live(WIRE_KIND_STREAM, *aside)) result = stream_begin_apart(session, aside);
  *stream = *aside;
  pthread_mutex_unlock(&lock);
  return result;
}

// ---- to a server that makes the copy -----------------------------------------------------------

// More pieces than this would take much of a stream's room: such a copy goes aside.
#define PIECES_MAX 64u

// A piece in the program's memory, as a row; `packed` is to be freed.
static const char *as_row(const struct copy *late, void **packed) {
  const void *source = host_use(box_pointer(&late->from));
  *packed = NULL;
  if (late->line || box_is_row(&late->box)) return source;
  struct box_end from = late->from;
  from.address = (uint64_t)(uintptr_t)source;
  *packed = malloc(late->bytes);
  if (!*packed) return NULL;
  const struct box_end to = {.place = BOX_HOST,
                             .address = (uint64_t)(uintptr_t)*packed,
                             .pitch = late->box.width,
                             .rows = late->box.height};
  box_on_host(&to, &from, &late->box);
  return *packed;
}

static CUresult send_payload(const struct copy *late, const struct host_step_call *call) {
  void *packed;
  const char *row = as_row(late, &packed);
  CUresult result = row ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  for (uint64_t offset = 0, part; offset < late->bytes && !result; offset += part) {
    part = late->bytes - offset < WIRE_BULK_MAX ? late->bytes - offset : WIRE_BULK_MAX;
    result = put_LatePayload(late->session, call->number, offset, part, row + offset);
  }
  host_used();
  free(packed);
  return result;
}

// The server has no room for it: by a copy on a stream aside.
static CUresult copy_aside(struct copy *late) {
  CUresult result = find_aside(late->session, &late->stream);
  if (!result) result = copy_upload(late);
  return result ? result : stream_synchronize(late->session, late->stream);
}

// On the thread of functions: it is the copy's turn.
static void bring(void *data, struct host_step_call call) {
  struct copy *late = data;
  CUresult result = CUDA_SUCCESS;
  pages_have_waited(call.session);  // for what its stream has done
  if (!call.status)
    result = send_payload(late, &call);
  else if (call.status == CUDA_ERROR_OUT_OF_MEMORY)
    result = copy_aside(late);
  if (result && !guest_is_lost()) guest_async_error(call.session, result);
  free(late);
  host_step_done(call);
}

static CUresult put_piece(uint64_t number, void *data) {
  const struct copy *late = data;
  const struct box_end *to = &late->to;
  const struct box *box = &late->box;
  const struct box row = box_row(late->bytes);
  if (late->line) box = &row;
  if (to->place == BOX_ARRAY)
    return put_LateUpload(late->session, to->array, to->x, to->y, to->z, box->width, box->height,
                          box->depth, late->stream, late->bytes, number);
  return put_LateUpload(late->session, 0, to->address, to->pitch, to->rows, box->width, box->height,
                        box->depth, late->stream, late->bytes, number);
}

static CUresult post_piece(const struct copy *copy, const struct box_piece *piece) {
  struct copy *late = malloc(sizeof *late);
  if (!late) return CUDA_ERROR_OUT_OF_MEMORY;
  *late = *copy;
  late->to = box_end_at(&copy->to, piece);
  late->from = box_end_at(&copy->from, piece);
  late->box = piece->box;
  late->bytes = box_bytes(&piece->box);
  CUresult result =
      stream_await_operations(copy->session, copy->stream, STREAM_OPERATIONS_OF_LATE_UPLOAD);
  if (!result) result = host_step_put(copy->session, bring, late, put_piece);
  if (result) free(late);
  return result;
}

static CUresult post_pieces(const struct copy *copy) {
  struct copy whole = *copy;
  if (whole.line) {
    whole.box = box_row(whole.bytes);
    whole.to.pitch = whole.from.pitch = whole.bytes;
    whole.to.rows = whole.from.rows = 1;
  }
  CUresult result = CUDA_SUCCESS;
  struct box_piece piece = {0};
  while (!result && piece.z < whole.box.depth) {
    box_piece_shape(&piece, &whole.box, WIRE_LATE_MAX, 1, 1);
    result = post_piece(&whole, &piece);
    box_piece_next(&piece, &whole.box);
  }
  return result;
}

// ---- to one that does not ----------------------------------------------------------------------

// With a copy on the stream aside.
static void run(void *data) {
  struct copy *late = data;
  struct thread_session before = session_switch(late->session);
  if (!copy_upload(late)) stream_synchronize(late->session, late->stream);
  session_back(before);
  free(late);
}

CUresult late_upload(const struct copy *copy) {
  if (copy->session->late_uploads && copy->bytes <= (uint64_t)PIECES_MAX * WIRE_LATE_MAX)
    return post_pieces(copy);
  struct copy *late = malloc(sizeof *late);
  if (!late) return CUDA_ERROR_OUT_OF_MEMORY;
  *late = *copy;
  CUresult result = find_aside(copy->session, &late->stream);
  if (!result) result = host_function_post(copy->session, copy->stream, run, late);
  if (result) free(late);
  return result;
}
