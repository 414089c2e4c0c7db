#include "copies/download.h"

#include "base/ablation.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "pages/merged.h"
#include "streams/room.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire/order.h"
#include "wire/region.h"

enum landing copy_landing(const struct copy *copy) {
  if (copy->covered) return LANDING_DEFERRED;
  return copy->async && host_is_pinned(box_pointer(&copy->to), box_span(&copy->to, &copy->box)) &&
                 !ablated(ABLATE_DEFERRED)
             ? LANDING_DEFERRED
             : LANDING_WAITED_FOR;
}

// An answer that lands so: a new one, or `own`, which is the caller's. NULL when there is no
// memory.
static struct answer *take_answer(struct session *session, struct answer *own,
                                  enum landing landing) {
  if (landing == LANDING_WAITED_FOR) {
    answer_init(own);
    pages_will_wait(session);
    return own;
  }
  struct answer *answer = answer_take_deferred(session);
  if (answer) answer->deferred = 1;
  return answer;
}

// What follows the question, which was asked unless `lost`.
static CUresult land(struct session *session, struct answer *answer, enum landing landing,
                     uint64_t stream, uint32_t reply_bytes, _Bool lost) {
  if (landing == LANDING_DEFERRED) {
    if (!lost) return batch_defer(session, stream);
    answer_give_back(session, answer);
  }
  if (lost) return guest_lost();
  CUresult result = batch_wait(session, answer, reply_bytes);
  answer_free(answer);
  if (result) return result;
  stream_operation_settled(session, stream, answer->sequence);
  pages_have_waited(session);
  return CUDA_SUCCESS;
}

// ---- bytes in a row ----------------------------------------------------------------------------

_Static_assert(sizeof(struct wire_RegionDownload) == sizeof(struct wire_Download),
               "the same question");

static _Bool ask_for_line(struct session *session, void *to, uint64_t source, uint64_t bytes,
                          uint64_t stream, struct answer *answer) {
  const _Bool region =
      region_wants(session, bytes) && region_holds(session, bytes) && region_can_write(to, bytes);
  if (region) region_give_back(session);
  struct wire_Download *frame =
      batch_ask(session, region ? WIRE_RegionDownload : WIRE_Download, sizeof *frame, answer);
  if (!frame) return 0;
  frame->source = source;
  frame->length = bytes;
  frame->stream = stream;
  return 1;
}

CUresult download_line(struct session *session, void *destination, uint64_t source, uint64_t bytes,
                       uint64_t stream, enum landing landing) {
  struct answer own, *answer = take_answer(session, &own, landing);
  if (!answer) return CUDA_ERROR_OUT_OF_MEMORY;
  const _Bool deferred = landing == LANDING_DEFERRED;
  void *to = deferred ? host_use(destination) : host_view(destination);
  answer_into(answer, to, bytes);
  const _Bool lost = !ask_for_line(session, to, source, bytes, stream, answer);
  CUresult result =
      land(session, answer, landing, stream, sizeof(struct wire_Download_reply), lost);
  if (deferred) host_used();
  return result;
}

// ---- boxes -------------------------------------------------------------------------------------

static _Bool ask_for_box(const struct copy *copy, struct answer *answer) {
  const struct box_end *from = &copy->from;
  const _Bool array = from->place == BOX_ARRAY;
  struct wire_BoxDownload *frame =
      batch_ask(copy->session, WIRE_BoxDownload, sizeof *frame, answer);
  if (!frame) return 0;
  frame->array = from->array;
  frame->x = array ? from->x : from->address;
  frame->y = array ? from->y : from->pitch;
  frame->z = array ? from->z : from->rows;
  frame->width = copy->box.width;
  frame->height = copy->box.height;
  frame->depth = copy->box.depth;
  frame->stream = copy->stream;
  return 1;
}

static CUresult download_box(const struct copy *copy, enum landing landing) {
  const struct box *box = &copy->box;
  struct answer own, *answer = take_answer(copy->session, &own, landing);
  if (!answer) return CUDA_ERROR_OUT_OF_MEMORY;
  answer_into_rows(answer, host_view(box_pointer(&copy->to)), box->width, box->height, box->depth,
                   copy->to.pitch, copy->to.pitch * copy->to.rows);
  const _Bool lost = !ask_for_box(copy, answer);
  return land(copy->session, answer, landing, copy->stream, sizeof(struct wire_BoxDownload_reply),
              lost);
}

static CUresult await_room(const struct copy *copy) {
  const struct box *box = &copy->box;
  return stream_await_operations(
      copy->session, copy->stream,
      copy->line ? stream_operations_of_download(copy->session, copy->bytes)
                 : stream_operations_of_box(copy->session, box->width, box->height, box->depth));
}

CUresult copy_download(const struct copy *copy, enum landing landing) {
  const CUresult result = copy->session->stream_operations ? await_room(copy) : CUDA_SUCCESS;
  if (result) return result;
  if (!copy->line) return download_box(copy, landing);
  return download_line(copy->session, box_pointer(&copy->to), copy->from.address, copy->bytes,
                       copy->stream, landing);
}

CUresult download_wait_for_all(struct session *session) {
  return answer_outstanding(session) ? context_synchronize(session) : CUDA_SUCCESS;
}
