// Captures: sequences of work that go into a graph in place of being run. Under the lock of graphs.
#pragma once

#include <memory>
#include <vector>

#include "graphs/graph.h"
#include "streams/task.h"

namespace softdev::driver {

struct Tip {
  std::shared_ptr<Node> node;
  CUgraphEdgeData data = {};
};

struct Capture;

// What a stream that is being captured has come to: its next node goes behind `tips`.
struct StreamCapture {
  std::shared_ptr<Capture> of;
  std::vector<Tip> tips;
  // What was last told of the tips; the program holds pointers into it.
  std::vector<CUgraphNode> told;
  std::vector<CUgraphEdgeData> told_data;
};

// Where the stream was in which the event was recorded.
struct EventCapture {
  std::shared_ptr<Capture> of;
  std::vector<Tip> tips;
};

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;  // that began it
  std::shared_ptr<Graph> graph;
  bool into_existing = false;
  bool valid = true;
  bool ended = false;
  struct Member {
    std::weak_ptr<Stream> stream;
    std::shared_ptr<StreamCapture> state;
  };
  std::vector<Member> members;  // the first is the stream it began in
};

// The mode of the calling thread, which decides what is unsafe for it.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);

// `graph` empty: into a graph of its own.
CUresult begin_capture(const StreamRef &stream, CUstreamCaptureMode mode,
                       std::shared_ptr<Graph> graph, std::vector<Tip> tips);
// Makes a copy of a graph a node behind what the stream has captured last.
CUresult capture_graph(const StreamRef &stream, const Graph &graph);
// Stream-ordered allocation, in a stream that is being captured.
CUresult capture_allocation(const StreamRef &stream, int device, size_t size, uint64_t *address);
CUresult capture_free(const StreamRef &stream, uint64_t address);
// On failure `*graph` is empty, and the capture has ended nevertheless, unless the call was wrong.
CUresult end_capture(const StreamRef &stream, std::shared_ptr<Graph> *graph);

// A capture that goes on when the call has been forbidden cannot be trusted.
void invalidate(Capture &capture);
// CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, also when the program took away the graph meanwhile.
CUresult check_valid(Capture &capture);

void add_tips(std::vector<Tip> *to, const std::vector<Tip> &more);

// In a stream that is being captured: notes where the event is.
CUresult capture_record(const StreamRef &stream, Event &event);
// Whether the event or the stream is part of a capture, and the wait was dealt with (or refused).
CUresult capture_wait(const StreamRef &stream, Event &event, bool *handled);
// CUDA_ERROR_CAPTURED_EVENT when the event was last recorded in a capture.
CUresult check_event(const Event &event);

// The stream goes away: a capture that began in it ends.
void abandon_capture(Stream &stream);

}  // namespace softdev::driver
