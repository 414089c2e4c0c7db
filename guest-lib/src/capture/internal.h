// The inside of captures, for the files that work on them: capture.c knows which are under way and
// what they forbid, capture_node.c adds to them, capture_calls.c has the entry points. With the
// lock of graphs.
#ifndef OUTBOARD_CAPTURE_INTERNAL_H
#define OUTBOARD_CAPTURE_INTERNAL_H

#include "graph/graph.h"
#include "streams/recorder.h"

// A stream that is being captured: its next node goes behind `tips`, which hold references.
struct capture_member {
  uint64_t stream;
  struct graph_edges tips;
  // What was last told of them; the program holds pointers into it.
  CUgraphNode *told;
  CUgraphEdgeData *told_data;
  size_t told_room;
};

struct capture {
  unsigned references;
  uint64_t id;
  CUstreamCaptureMode mode;
  uint64_t thread;  // that began it
  struct graph *graph;
  _Bool into_existing, valid, ended;
  struct capture_member **members;  // the first is the stream it began in
  unsigned member_count;
  struct capture *next;
};

// Where the stream was in which an event was recorded.
struct event_capture {
  uint64_t event;
  struct capture *capture;
  struct graph_edges tips;
};

uint64_t capture_thread(void);  // a number of the calling thread
CUstreamCaptureMode capture_exchange_mode(CUstreamCaptureMode mode);

// The capture and the member of a stream; false when it is not captured.
_Bool capture_find(uint64_t stream, struct capture **capture, struct capture_member **member);
// CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, also when the program took away the graph meanwhile.
CUresult capture_check_valid(struct capture *capture);
// Whether the legacy stream would wait for a stream that is captured.
CUresult capture_check_legacy(_Bool harmless);

CUresult capture_begin(uint64_t stream, CUstreamCaptureMode mode, struct graph *into,
                       const struct graph_edges *tips);
// *graph without a reference of its own. On failure the capture has ended nevertheless, unless the
// call was wrong.
CUresult capture_end(uint64_t stream, struct graph **graph);

_Bool tips_add(struct graph_edges *to, const struct graph_edges *more);
void tips_free(struct graph_edges *tips);
// Behind what the stream has captured last; the reference to the task is not taken over.
CUresult capture_add(struct capture *capture, struct capture_member *member, CUgraphNodeType type,
                     struct task *task, struct graph_node **node);
CUresult capture_task(uint64_t stream, CUresult made, struct task *task);

// ---- what the recorder does (streams/recorder.h); these take the lock themselves ----

CUresult capture_check_unsafe(void);
CUresult capture_check_wait(uint64_t stream);
CUresult capture_check_context_wait(void);
CUresult capture_check_legacy_wait(uint64_t context);
CUresult capture_check_event(uint64_t event);
CUresult capture_check_work(uint64_t stream);
CUresult capture_look(uint64_t stream);
CUresult capture_launch(uint64_t stream, const void *function, const CUlaunchConfig *config,
                        _Bool cooperative, const void *packed, uint32_t size);
CUresult capture_copy(const struct copy *copy);
CUresult capture_fill(uint64_t address, uint64_t pitch, uint32_t value, uint32_t unit,
                      uint64_t elements, uint64_t height, uint64_t stream);
CUresult capture_host(uint64_t stream, CUhostFn function, void *data);
CUresult capture_values(uint64_t stream, const struct wire_value *values, unsigned count);
CUresult capture_allocate(uint64_t stream, int device, uint64_t size, CUdeviceptr *address);
CUresult capture_free(uint64_t stream, uint64_t address);
CUresult capture_event_record(uint64_t event, uint64_t stream, unsigned flags);
CUresult capture_event_wait(uint64_t stream, uint64_t event, unsigned flags);
void capture_stream_ends(uint64_t stream);
void capture_event_ends(uint64_t event);

#endif
