// The inside of captures, for the files that work on them: capture.c knows which are under way and
// what they forbid, capture_node.c adds to them, capture_calls.c has the entry points. Everything
// here is called with the lock of graphs held, except where it says otherwise.
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

// Returns a number of the calling thread. Needs no lock, and nor does the next.
uint64_t capture_thread(void);
// Sets the calling thread's mode, and returns what it was.
CUstreamCaptureMode capture_exchange_mode(CUstreamCaptureMode mode);

// Sets *capture and *member to those of a stream. False when it is not captured.
_Bool capture_find(uint64_t stream, struct capture **capture, struct capture_member **member);
// CUDA_ERROR_STREAM_CAPTURE_INVALIDATED when the capture is not valid any more, or the program has
// destroyed the graph meanwhile.
CUresult capture_check_valid(struct capture *capture);
// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT when the legacy stream of the current context would wait for a
// stream that is captured. That invalidates the capture, unless the call is `harmless`.
CUresult capture_check_legacy(_Bool harmless);

// Begins to capture a stream, into a new graph or behind the nodes `tips` of the graph `into`.
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED for the legacy stream, CUDA_ERROR_ILLEGAL_STATE when it is
// captured already, CUDA_ERROR_OUT_OF_MEMORY.
CUresult capture_begin(uint64_t stream, CUstreamCaptureMode mode, struct graph *into,
                       const struct graph_edges *tips);
// Ends the capture that began in a stream, and sets *graph, without a reference of its own. After
// CUDA_ERROR_STREAM_CAPTURE_INVALIDATED and CUDA_ERROR_STREAM_CAPTURE_UNJOINED the capture has
// ended as well; after errors of the call (no capture, another thread, another stream of it) it has
// not.
CUresult capture_end(uint64_t stream, struct graph **graph);

// Adds those tips that are not in the list yet, with references. False when there is no memory.
_Bool tips_add(struct graph_edges *to, const struct graph_edges *more);
// Frees the list with its references.
void tips_free(struct graph_edges *tips);
// Adds a node behind what the stream has captured last. It takes a reference of its own to the
// task. The errors are those of capture_check_valid and graph_add.
CUresult capture_add(struct capture *capture, struct capture_member *member, CUgraphNodeType type,
                     struct task *task, struct graph_node **node);
// Adds a node with a task that the caller has made with the result `made`, unless that is an error,
// which it returns; it takes the reference over. CAPTURE_NONE when the stream is not captured. The
// lock is not held.
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
