#include <stdlib.h>
#include <string.h>

#include "capture/internal.h"
#include "graph/task.h"
#include "guest_calls.h"
#include "session/context.h"
#include "session/handle.h"
#include "session/session.h"
#include "wire/order.h"

static struct capture *active;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

uint64_t capture_thread(void) {
  static _Atomic uint64_t numbers;
  static __thread uint64_t number;
  if (!number) number = atomic_fetch_add(&numbers, 1) + 1;
  return number;
}

CUstreamCaptureMode capture_exchange_mode(CUstreamCaptureMode mode) {
  CUstreamCaptureMode before = thread_mode;
  thread_mode = mode;
  return before;
}

// ---- tips --------------------------------------------------------------------------------------

_Bool tips_add(struct graph_edges *to, const struct graph_edges *more) {
  for (uint32_t i = 0; i < more->count; i++) {
    uint32_t k = 0;
    while (k < to->count && to->at[k].node != more->at[i].node) k++;
    if (k < to->count) continue;
    if (!graph_edges_add(to, more->at[i].node, more->at[i].data)) return 0;
    more->at[i].node->references++;
  }
  return 1;
}

void tips_free(struct graph_edges *tips) {
  for (uint32_t i = 0; i < tips->count; i++) graph_node_unref(tips->at[i].node);
  graph_edges_free(tips);
}

// ---- which are under way -----------------------------------------------------------------------

_Bool capture_find(uint64_t stream, struct capture **capture, struct capture_member **member) {
  for (struct capture *at = active; at; at = at->next)
    for (unsigned i = 0; i < at->member_count; i++) {
      if (at->members[i]->stream != stream) continue;
      *capture = at;
      *member = at->members[i];
      return 1;
    }
  return 0;
}

static void unref(struct capture *capture) {
  if (--capture->references) return;
  graph_unref(capture->graph);
  free(capture);
}

static void free_member(struct capture_member *member) {
  tips_free(&member->tips);
  free(member->told);
  free(member->told_data);
  free(member);
}

// Ends a capture, and lets its streams go.
static void finish(struct capture *capture) {
  capture->ended = 1;
  for (unsigned i = 0; i < capture->member_count; i++) free_member(capture->members[i]);
  free(capture->members);
  capture->members = NULL;
  capture->member_count = 0;
  struct capture **link = &active;
  while (*link != capture) link = &(*link)->next;
  *link = capture->next;
  atomic_fetch_sub(&capture_count, 1);
}

// Ends the graph of a capture that has failed, unless it is the program's.
static void discard(struct capture *capture) {
  if (!capture->into_existing && !capture->graph->gone) graph_forget(capture->graph);
}

static struct capture_member *new_member(struct capture *capture, uint64_t stream,
                                         const struct graph_edges *tips) {
  struct capture_member *member = calloc(1, sizeof *member);
  struct capture_member **grown =
      realloc(capture->members, (capture->member_count + 1) * sizeof(struct capture_member *));
  if (grown) capture->members = grown;
  if (!member || !grown || !tips_add(&member->tips, tips)) {
    if (member) free_member(member);
    return NULL;
  }
  member->stream = stream;
  return capture->members[capture->member_count++] = member;
}

CUresult capture_begin(uint64_t stream, CUstreamCaptureMode mode, struct graph *into,
                       const struct graph_edges *tips) {
  static uint64_t ids;
  struct capture *other;
  struct capture_member *member;
  if (stream == STREAM_LEGACY_WIRE) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (capture_find(stream, &other, &member)) return CUDA_ERROR_ILLEGAL_STATE;
  struct capture *capture = calloc(1, sizeof *capture);
  if (!capture) return CUDA_ERROR_OUT_OF_MEMORY;
  capture->references = 1;
  capture->mode = mode;
  capture->thread = capture_thread();
  capture->valid = 1;
  capture->into_existing = into != NULL;
  capture->graph = into;
  if (into) {
    into->references++;
  } else if (!(capture->graph = graph_new()) || !graph_name(capture->graph)) {
    if (capture->graph) graph_unref(capture->graph);
    free(capture);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!new_member(capture, stream, tips)) {
    discard(capture);
    free(capture->members);
    unref(capture);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  capture->id = ++ids;
  capture->next = active;
  active = capture;
  atomic_fetch_add(&capture_count, 1);
  return CUDA_SUCCESS;
}

// Whether all that forked off has come back to the stream in which the capture began.
static _Bool joined(const struct capture *capture) {
  static uint64_t marks;
  uint64_t mark = ++marks;
  size_t count = 0, room = capture->graph->node_count + 1;
  struct graph_node **reached = malloc(room * sizeof(struct graph_node *));
  if (!reached) return 0;
  const struct graph_edges *tips = &capture->members[0]->tips;
  for (uint32_t i = 0; i < tips->count; i++) {
    struct graph_node *node = tips->at[i].node;
    if (!node->graph || node->mark == mark) continue;
    node->mark = mark;
    reached[count++] = node;
  }
  for (size_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < reached[i]->before.count; k++) {
      struct graph_node *node = reached[i]->before.at[k].node;
      if (node->mark == mark) continue;
      node->mark = mark;
      reached[count++] = node;
    }
  free(reached);
  for (unsigned m = 1; m < capture->member_count; m++)
    for (uint32_t i = 0; i < capture->members[m]->tips.count; i++) {
      const struct graph_node *node = capture->members[m]->tips.at[i].node;
      if (node->graph && node->mark != mark) return 0;
    }
  return 1;
}

CUresult capture_end(uint64_t stream, struct graph **graph) {
  struct capture *capture;
  struct capture_member *member;
  *graph = NULL;
  if (!capture_find(stream, &capture, &member)) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != capture_thread())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  if (capture->members[0] != member) {
    capture->valid = 0;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  CUresult result = capture_check_valid(capture);
  if (!result && !joined(capture)) result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  finish(capture);
  if (result)
    discard(capture);
  else
    *graph = capture->graph;
  unref(capture);
  return result;
}

void capture_stream_ends(uint64_t stream) {
  struct capture *capture;
  struct capture_member *member;
  graphs_lock();
  if (capture_find(stream, &capture, &member)) {
    if (capture->members[0] == member) {
      finish(capture);
      discard(capture);
      unref(capture);
    } else {
      member->stream = UINT64_MAX;  // no stream's, but what it has captured must be joined
    }
  }
  graphs_unlock();
}

// ---- what they forbid --------------------------------------------------------------------------

CUresult capture_check_valid(struct capture *capture) {
  if (capture->graph->gone) capture->valid = 0;
  return capture->valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

// Whether a stream is of a context; sets its flags. The thread stays in its session, as this is
// asked for streams that the call does not name.
static _Bool is_of(uint64_t wanted, uint64_t stream, unsigned *flags) {
  CUcontext context = NULL;
  if (stream == UINT64_MAX) return 0;
  struct thread_session before = session_switch(session_here());
  CUresult result = guest_cuStreamGetCtx((CUstream)(uintptr_t)stream, &context, 0);
  if (!result) result = guest_cuStreamGetFlags((CUstream)(uintptr_t)stream, flags, 0);
  session_back(before);
  return !result && handle_of(context) == wanted;
}

static _Bool blocks_legacy(const struct capture *capture, uint64_t context) {
  unsigned flags;
  for (unsigned i = 0; i < capture->member_count; i++)
    if (is_of(context, capture->members[i]->stream, &flags) && !(flags & CU_STREAM_NON_BLOCKING))
      return 1;
  return 0;
}

static CUresult check_legacy_of(uint64_t context, _Bool harmless) {
  _Bool implicit = 0;
  for (struct capture *capture = active; capture; capture = capture->next) {
    if (!blocks_legacy(capture, context)) continue;
    implicit = 1;
    if (!harmless) capture->valid = 0;
  }
  return implicit ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult capture_check_legacy(_Bool harmless) {
  return check_legacy_of(context_current_handle(), harmless);
}

CUresult capture_check_legacy_wait(uint64_t context) {
  graphs_lock();
  CUresult result = check_legacy_of(context, 0);
  graphs_unlock();
  return result;
}

CUresult capture_check_unsafe(void) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  graphs_lock();
  for (struct capture *capture = active; capture; capture = capture->next) {
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    _Bool by_others = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                      capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!by_others && capture->thread != capture_thread()) continue;
    capture->valid = 0;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  graphs_unlock();
  return result;
}

CUresult capture_check_wait(uint64_t stream) {
  struct capture *capture;
  struct capture_member *member;
  CUresult result = CUDA_SUCCESS;
  graphs_lock();
  if (stream == STREAM_LEGACY_WIRE) {
    result = capture_check_legacy(0);
  } else if (capture_find(stream, &capture, &member) && !(result = capture_check_valid(capture))) {
    capture->valid = 0;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  graphs_unlock();
  return result;
}

CUresult capture_check_context_wait(void) {
  CUresult result = CUDA_SUCCESS;
  graphs_lock();
  for (struct capture *capture = active; capture; capture = capture->next)
    for (unsigned i = 0; i < capture->member_count; i++) {
      unsigned flags;
      if (!is_of(context_current_handle(), capture->members[i]->stream, &flags)) continue;
      capture->valid = 0;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  graphs_unlock();
  return result;
}

// ---- events ------------------------------------------------------------------------------------

// By the index of the event's handle.
static struct event_capture **events;
static uint32_t event_room;

static struct event_capture *find_event(uint64_t event) {
  uint32_t index = wire_handle_index(event);
  struct event_capture *found = index < event_room ? events[index] : NULL;
  return found && found->event == event ? found : NULL;
}

static void forget_event(uint64_t event) {
  struct event_capture *found = find_event(event);
  if (!found) return;
  events[wire_handle_index(event)] = NULL;
  tips_free(&found->tips);
  unref(found->capture);
  free(found);
  atomic_fetch_sub(&capture_event_count, 1);
}

void capture_event_ends(uint64_t event) {
  graphs_lock();
  forget_event(event);
  graphs_unlock();
}

CUresult capture_check_event(uint64_t event) {
  CUresult result = CUDA_SUCCESS;
  graphs_lock();
  struct event_capture *found = find_event(event);
  if (found) {
    if (!found->capture->ended) found->capture->valid = 0;
    result = CUDA_ERROR_CAPTURED_EVENT;
  }
  graphs_unlock();
  return result;
}

static CUresult note_event(uint64_t event, struct capture *capture,
                           const struct graph_edges *tips) {
  uint32_t index = wire_handle_index(event);
  if (index >= event_room) {
    uint32_t room = event_room ? event_room : 64;
    while (room <= index) room *= 2;
    struct event_capture **grown = realloc(events, room * sizeof(struct event_capture *));
    if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(grown + event_room, 0, (room - event_room) * sizeof(struct event_capture *));
    events = grown;
    event_room = room;
  }
  struct event_capture *noted = calloc(1, sizeof *noted);
  if (!noted || !tips_add(&noted->tips, tips)) {
    if (noted) tips_free(&noted->tips);
    free(noted);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  noted->event = event;
  noted->capture = capture;
  capture->references++;
  forget_event(event);
  events[index] = noted;
  atomic_fetch_add(&capture_event_count, 1);
  return CUDA_SUCCESS;
}

CUresult capture_event_record(uint64_t event, uint64_t stream, unsigned flags) {
  struct capture *capture;
  struct capture_member *member;
  if (flags & CU_EVENT_RECORD_EXTERNAL) {
    struct task *task = NULL;
    graphs_lock();
    CUresult made = task_event(event, 1, context_current_handle(), &task);
    graphs_unlock();
    CUresult result = capture_task(stream, made, task);
    return result == CAPTURE_NONE ? CUDA_ERROR_INVALID_VALUE : result;
  }
  CUresult result = CAPTURE_NONE;
  graphs_lock();
  if (stream == STREAM_LEGACY_WIRE) {
    if ((result = capture_check_legacy(0)) == CUDA_SUCCESS) result = CAPTURE_NONE;
  } else if (capture_find(stream, &capture, &member)) {
    result = capture_check_valid(capture);
    if (!result) result = note_event(event, capture, &member->tips);
  }
  if (result == CAPTURE_NONE) forget_event(event);
  graphs_unlock();
  return result;
}

// With the lock. What an event recorded in a capture means to a stream that waits for it.
static CUresult join(uint64_t stream, uint64_t event) {
  struct capture *capture = NULL;
  struct capture_member *member = NULL;
  struct event_capture *at = find_event(event);
  _Bool captured = capture_find(stream, &capture, &member);
  if (!at && !captured)
    return stream == STREAM_LEGACY_WIRE && capture_check_legacy(0)
               ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
               : CAPTURE_NONE;
  CUresult result = captured ? capture_check_valid(capture) : CUDA_SUCCESS;
  if (result) return result;
  if (!at) {
    capture->valid = 0;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (at->capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
  if ((result = capture_check_valid(at->capture))) return result;
  if (captured && capture != at->capture) {
    capture->valid = at->capture->valid = 0;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (captured) return tips_add(&member->tips, &at->tips) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (stream == STREAM_LEGACY_WIRE) {
    at->capture->valid = 0;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return new_member(at->capture, stream, &at->tips) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_event_wait(uint64_t stream, uint64_t event, unsigned flags) {
  if (flags & CU_EVENT_WAIT_EXTERNAL) {
    struct task *task = NULL;
    graphs_lock();
    CUresult made = task_event(event, 0, context_current_handle(), &task);
    graphs_unlock();
    CUresult result = capture_task(stream, made, task);
    return result == CAPTURE_NONE ? CUDA_ERROR_INVALID_VALUE : result;
  }
  graphs_lock();
  CUresult result = join(stream, event);
  graphs_unlock();
  return result;
}
