#include "copies/resolve.h"

#include "memory/host_memory.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "memory/window.h"
#include "session/handle.h"
#include "session/session.h"
#include "setup/log.h"
#include "wire/order.h"

// Whether an end in memory has an address, rows that do not overlap, and all of the box before the
// end of all addresses.
static _Bool has_rows(const struct box_end *end, const struct box *box) {
  if (end->place == BOX_ARRAY) return 1;
  if (box->height > 1 && end->pitch < box->width) return 0;
  if (box->depth > 1 && (unsigned __int128)end->pitch * end->rows > UINT64_MAX) return 0;
  return end->address && box_span(end, box);
}
static inline _Bool has_row(const struct box_end *end, uint64_t bytes) {
  return end->place == BOX_ARRAY || bytes < -end->address;
}

static _Bool measure_box(struct copy *copy) {
  const struct box *box = &copy->box;
  copy->bytes = 0;
  if (box_is_empty(box)) return 1;
  copy->line = box_is_line(&copy->to, &copy->from, box);
  return !__builtin_mul_overflow(box->width, box->height, &copy->bytes) &&
         !__builtin_mul_overflow(copy->bytes, box->depth, &copy->bytes) &&
         has_rows(&copy->to, box) && has_rows(&copy->from, box);
}

// Finds out how much is copied, and whether there can be such a copy.
static inline _Bool measure(struct copy *copy) {
  const uint64_t width = copy->box.width;
  if (!box_is_row(&copy->box)) return measure_box(copy);
  copy->bytes = width;
  copy->line = copy->to.place != BOX_ARRAY && copy->from.place != BOX_ARRAY;
  return !width || (has_row(&copy->to, width) && has_row(&copy->from, width));
}

// ---- who has the ends --------------------------------------------------------------------------

struct session *holder_of(const struct box_end *end) {
  if (end->place == BOX_ARRAY) return handle_session(WIRE_KIND_ARRAY, end->array);
  struct allocation found;
  if (end->place == BOX_HOST || window_in_host_part(end->address)) return NULL;
  return memory_find(end->address, &found) ? found.session : NULL;
}

_Bool holder_lends(struct session *holder, const struct box_end *end, struct session *session) {
  struct allocation found;
  if (session == holder) return 1;
  return end->place != BOX_ARRAY && memory_find(end->address, &found) &&
         sessions_have(found.borrowers, session);
}

static struct session *who_reaches_both(const struct copy *copy, struct session *here) {
  struct session *const sessions[3] = {here, copy->to_session, copy->from_session};
  if (!copy->to_session || !copy->from_session) return NULL;
  for (int i = 0; i < 3; i++)
    if (holder_lends(copy->to_session, &copy->to, sessions[i]) &&
        holder_lends(copy->from_session, &copy->from, sessions[i]))
      return sessions[i];
  return NULL;
}

// Finds who has the ends of a copy on a stream of the thread's session. A copy goes across when
// another session has an end of it; but not when this session's device reaches both ends and the
// copy is asynchronous and not on the legacy stream, so that it can be made like any other.
static __attribute__((noinline)) _Bool goes_across(struct copy *copy) {
  struct session *here = copy->session;
  copy->to_session = holder_of(&copy->to);
  copy->from_session = holder_of(&copy->from);
  if ((!copy->to_session || copy->to_session == here) &&
      (!copy->from_session || copy->from_session == here))
    return copy->across = 0;
  // That things of two sessions were named is no error here.
  session_use(here);
  copy->by = who_reaches_both(copy, here);
  copy->across = copy->by != here || !copy->async || copy->stream == STREAM_LEGACY_WIRE;
  return copy->across;
}

// ---- which memory it is ------------------------------------------------------------------------

// Looks at an end that the call's name says is the host's. Memory that a device reaches as well is
// good, too, and the copy is one of either then.
static inline CUresult check_name(struct copy *copy, struct box_end *end) {
  if (end->place != BOX_HOST) return CUDA_SUCCESS;
  const void *pointer = host_on_device(box_pointer(end));
  if (!memory_is_device(pointer)) return CUDA_SUCCESS;
  if (!memory_is_shared(pointer)) {
    log_warn("%p is a device pointer where a host pointer belongs", pointer);
    return CUDA_ERROR_INVALID_VALUE;
  }
  end->place = BOX_EITHER;
  copy->ends_known = 0;
  return CUDA_SUCCESS;
}

// Does the same for a call that has no such name, where more than one device may have the memory.
static void look_at_host_ends(struct copy *copy) {
  struct box_end *ends[2] = {&copy->to, &copy->from};
  for (int i = 0; i < 2; i++)
    if (ends[i]->place == BOX_HOST && memory_is_shared(host_on_device(box_pointer(ends[i]))))
      ends[i]->place = BOX_EITHER;
}

// Registered memory that the device reaches is where the device has it.
static inline const void *translate(struct box_end *end) {
  const void *pointer = host_on_device(box_pointer(end));
  end->address = (uint64_t)(uintptr_t)pointer;
  return pointer;
}

typedef CUresult range_check(uint64_t address, uint64_t size);

static CUresult locate(struct box_end *end, const struct box *box, range_check *check) {
  if (end->place == BOX_ARRAY) return CUDA_SUCCESS;
  const void *pointer = translate(end);
  if (memory_is_device(pointer)) {
    end->place = BOX_DEVICE;
    return check(end->address, box_span(end, box));
  }
  // The device reaches pinned memory, too.
  if (end->place == BOX_DEVICE && !host_is_pinned(pointer, box_span(end, box)))
    return CUDA_ERROR_INVALID_VALUE;
  end->place = BOX_HOST;
  return CUDA_SUCCESS;
}

static CUresult locate_both(struct copy *copy) {
  CUresult result = locate(&copy->to, &copy->box, memory_check);
  return result ? result : locate(&copy->from, &copy->box, memory_check_source);
}

// Where the name says which memory it is.
static CUresult check_known(struct copy *copy) {
  CUresult result = CUDA_SUCCESS;
  if (copy->to.place == BOX_DEVICE) {
    translate(&copy->to);
    result = memory_check(copy->to.address, copy->box.width);
  }
  if (!result && copy->from.place == BOX_DEVICE) {
    translate(&copy->from);
    result = memory_check_source(copy->from.address, copy->box.width);
  }
  return result;
}

CUresult copy_locate(struct copy *copy) {
  copy->session = session_here();
  if (!measure(copy)) return CUDA_ERROR_INVALID_VALUE;
  return copy->bytes ? locate_both(copy) : CUDA_SUCCESS;
}

CUresult copy_resolve(struct copy *copy) {
  copy->session = session_here();
  if (!measure(copy)) return CUDA_ERROR_INVALID_VALUE;
  if (!copy->bytes) return CUDA_SUCCESS;
  if (copy->ends_known) {
    CUresult result = check_name(copy, &copy->to);
    if (!result) result = check_name(copy, &copy->from);
    if (result) return result;
  }
  if (sessions_many()) {
    if (!copy->ends_known) look_at_host_ends(copy);
    if (goes_across(copy)) return CUDA_SUCCESS;
  }
  return copy->ends_known ? check_known(copy) : locate_both(copy);
}
