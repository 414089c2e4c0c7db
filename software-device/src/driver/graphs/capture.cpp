#include "graphs/capture.h"

#include <algorithm>

#include "core/driver.h"
#include "core/log.h"
#include "graphs/memory.h"
#include "streams/launch.h"

namespace softdev::driver {

std::atomic<unsigned> captures{0};

namespace {

std::vector<std::shared_ptr<Capture>> &active() {
  static auto *all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Lets its streams go.
void finish(const std::shared_ptr<Capture> &capture) {
  capture->ended = true;
  for (const Capture::Member &member : capture->members)
    if (auto stream = member.stream.lock(); stream && stream->capture() == member.state)
      stream->set_capture(nullptr);
  capture->members.clear();
  std::erase(active(), capture);
  captures.store(static_cast<unsigned>(active().size()), std::memory_order_relaxed);
}

// A graph that nobody will ever see.
void discard(Capture &capture) {
  if (!capture.into_existing && !capture.graph->gone) capture.graph->forget();
}

// Whether the legacy stream would have to wait for a stream of the capture.
bool blocks_legacy(const Capture &capture, const std::shared_ptr<Context> &context) {
  return std::any_of(capture.members.begin(), capture.members.end(), [&](const auto &member) {
    auto stream = member.stream.lock();
    return stream && stream->blocking() && stream->context.lock() == context;
  });
}

CUresult check_legacy(const StreamRef &stream, Use use) {
  bool implicit = false;
  for (const auto &capture : active())
    if (blocks_legacy(*capture, stream.context)) {
      implicit = true;
      if (use != Use::kLook) invalidate(*capture);
    }
  if (!implicit) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                "the legacy stream would wait for a blocking stream that is being captured");
}

// Whether all that forked off has come back to the stream in which the capture began.
bool joined(const Capture &capture) {
  static uint64_t marks = 0;
  uint64_t mark = ++marks;
  std::vector<Node *> reached;
  auto reach = [&](Node *node) {
    if (node->mark == mark) return;
    node->mark = mark;
    reached.push_back(node);
  };
  for (const Tip &tip : capture.members.front().state->tips) reach(tip.node.get());
  for (size_t i = 0; i < reached.size(); i++)
    for (const Edge &edge : reached[i]->before) reach(edge.node);
  for (const Capture::Member &member : capture.members)
    for (const Tip &tip : member.state->tips)
      if (tip.node->graph && tip.node->mark != mark) return false;
  return true;
}

// Edges to a kernel that need not wait for the end of the kernel before it.
bool is_programmatic(const Task &task) {
  if (task.type() != CU_GRAPH_NODE_TYPE_KERNEL) return false;
  for (const CUlaunchAttribute &attribute : static_cast<const KernelTask &>(task).attributes)
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      return attribute.value.programmaticStreamSerializationAllowed != 0;
  return false;
}

}  // namespace

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

void invalidate(Capture &capture) { capture.valid = false; }

CUresult check_valid(Capture &capture) {
  if (capture.graph->gone) invalidate(capture);
  if (capture.valid) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture failed before");
}

CUresult check_capture(const StreamRef &stream, Use use) {
  GraphsLock lock;
  if (stream->role == Stream::Role::kLegacy) return check_legacy(stream, use);
  if (!stream->capture()) return CUDA_SUCCESS;
  Capture &capture = *stream->capture()->of;
  if (CUresult bad = check_valid(capture)) return bad;
  if (use != Use::kWait) return CUDA_SUCCESS;
  invalidate(capture);
  return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "not in a stream that is being captured: nothing runs there");
}

CUresult check_unsafe() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  GraphsLock lock;
  bool forbidden = false;
  for (const auto &capture : active()) {
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    bool by_others = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                     capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!by_others && capture->thread != thread_number()) continue;
    forbidden = true;
    invalidate(*capture);
  }
  if (!forbidden) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "the call may wait for the device, and a stream is being captured");
}

CUresult check_context_wait(const Context &context) {
  GraphsLock lock;
  bool forbidden = false;
  for (const auto &capture : active())
    for (const Capture::Member &member : capture->members) {
      auto stream = member.stream.lock();
      if (!stream || stream->context.lock().get() != &context) continue;
      forbidden = true;
      invalidate(*capture);
    }
  if (!forbidden) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream of the context is being captured");
}

namespace {

// Behind what the stream has captured last. `make(graph, before, &node)` adds the node.
template <class Make>
CUresult add_node(const StreamRef &stream, bool programmatic, Node **node, Make make) {
  if (!stream->capture()) return refuse(CUDA_ERROR_ILLEGAL_STATE, "the capture has just ended");
  StreamCapture &state = *stream->capture();
  if (CUresult bad = check_valid(*state.of)) return bad;
  std::vector<Edge> before;
  for (const Tip &tip : state.tips) {
    if (!tip.node->graph) continue;  // destroyed meanwhile
    before.push_back({tip.node.get(), tip.data});
    if (programmatic && tip.node->type == CU_GRAPH_NODE_TYPE_KERNEL && is_plain(tip.data))
      before.back().data = {1, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
  }
  if (CUresult bad = make(state.of->graph.get(), before, node)) {
    invalidate(*state.of);
    return bad;
  }
  state.tips.assign(1, Tip{(*node)->self()});
  return CUDA_SUCCESS;
}

}  // namespace

CUresult capture(const StreamRef &stream, const TaskRef &task) {
  if (stream->priority && task->type() == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUlaunchAttribute priority{CU_LAUNCH_ATTRIBUTE_PRIORITY, {}, {}};
    priority.value.priority = stream->priority;
    auto &attributes = static_cast<KernelTask &>(*task).attributes;
    attributes.insert(attributes.begin(), priority);
  }
  GraphsLock lock;
  Node *node = nullptr;
  return add_node(stream, is_programmatic(*task), &node,
                  [&](Graph *graph, auto &before, Node **to) {
                    return graph->add(task->type(), task, before, to);
                  });
}

CUresult capture_graph(const StreamRef &stream, const Graph &graph) {
  Node *node = nullptr;
  if (stream->capture())
    if (CUresult bad = stream->capture()->of->graph->check_room(graph)) return bad;
  CUresult bad = add_node(stream, false, &node, [](Graph *into, auto &before, Node **to) {
    return into->add(CU_GRAPH_NODE_TYPE_GRAPH, nullptr, before, to);
  });
  if (bad) return bad;
  node->children.push_back(graph.clone(true));
  node->children[0]->parent = node;
  driver()->handles.add(node->children[0]);
  return CUDA_SUCCESS;
}

CUresult capture_allocation(const StreamRef &stream, int device, size_t size, uint64_t *address) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  params.bytesize = size;
  GraphsLock lock;
  Node *node = nullptr;
  CUresult bad = add_node(stream, false, &node, [&](Graph *graph, auto &before, Node **to) {
    return add_allocation(graph, stream.context, params, before, to);
  });
  if (bad) return bad;
  *address = static_cast<const AllocateTask &>(*node->task).allocation->address;
  return CUDA_SUCCESS;
}

CUresult capture_free(const StreamRef &stream, uint64_t address) {
  GraphsLock lock;
  Node *node = nullptr;
  return add_node(stream, false, &node, [&](Graph *graph, auto &before, Node **to) {
    return add_free(graph, stream.context, address, before, to);
  });
}

CUresult begin_capture(const StreamRef &stream, CUstreamCaptureMode mode,
                       std::shared_ptr<Graph> graph, std::vector<Tip> tips) {
  static uint64_t ids = 0;
  if (stream->role == Stream::Role::kLegacy)
    return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy stream cannot be captured");
  if (stream->capture())
    return refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is being captured already");
  auto capture = std::make_shared<Capture>();
  capture->id = ++ids;
  capture->mode = mode;
  capture->thread = thread_number();
  capture->into_existing = graph != nullptr;
  if (!graph) {
    graph = std::make_shared<Graph>();
    driver()->handles.add(graph);
  }
  capture->graph = std::move(graph);
  auto state = std::make_shared<StreamCapture>();
  state->of = capture;
  state->tips = std::move(tips);
  capture->members.push_back({stream.stream, state});
  active().push_back(capture);
  captures.store(static_cast<unsigned>(active().size()), std::memory_order_relaxed);
  stream->set_capture(std::move(state));
  return CUDA_SUCCESS;
}

CUresult end_capture(const StreamRef &stream, std::shared_ptr<Graph> *graph) {
  graph->reset();
  if (!stream->capture())
    return refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is not being captured");
  std::shared_ptr<Capture> capture = stream->capture()->of;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_number())
    return refuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture");
  if (capture->members.front().stream.lock() != stream.stream) {
    invalidate(*capture);
    return refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began in another stream");
  }
  CUresult bad = check_valid(*capture);
  if (!bad && !joined(*capture))
    bad = refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                 "a stream has joined the capture, and its work was not waited for");
  finish(capture);
  if (bad)
    discard(*capture);
  else
    *graph = capture->graph;
  return bad;
}

void add_tips(std::vector<Tip> *to, const std::vector<Tip> &more) {
  for (const Tip &tip : more)
    if (std::none_of(to->begin(), to->end(),
                     [&](const Tip &known) { return known.node == tip.node; }))
      to->push_back(tip);
}

CUresult capture_record(const StreamRef &stream, Event &event) {
  StreamCapture &state = *stream->capture();
  if (CUresult bad = check_valid(*state.of)) return bad;
  event.set_capture(std::make_shared<EventCapture>(EventCapture{state.of, state.tips}));
  return CUDA_SUCCESS;
}

CUresult capture_wait(const StreamRef &stream, Event &event, bool *handled) {
  *handled = event.captured() || stream->capture();
  if (!*handled) return CUDA_SUCCESS;
  StreamCapture *state = stream->capture().get();
  if (state)
    if (CUresult bad = check_valid(*state->of)) return bad;
  if (!event.captured()) {
    invalidate(*state->of);
    return refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                  "a captured stream cannot wait for work that is not captured");
  }
  const EventCapture &at = *event.capture();
  if (at.of->ended)
    return refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture that has ended");
  if (CUresult bad = check_valid(*at.of)) return bad;
  if (state) {
    if (state->of != at.of) {
      invalidate(*state->of);
      invalidate(*at.of);
      return refuse(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one");
    }
    add_tips(&state->tips, at.tips);
    return CUDA_SUCCESS;
  }
  if (stream->role == Stream::Role::kLegacy) {
    invalidate(*at.of);
    return refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream cannot join a capture");
  }
  auto joining = std::make_shared<StreamCapture>();
  joining->of = at.of;
  joining->tips = at.tips;
  at.of->members.push_back({stream.stream, joining});
  stream->set_capture(std::move(joining));
  return CUDA_SUCCESS;
}

CUresult check_event(const Event &event) {
  if (!event.captured()) return CUDA_SUCCESS;
  GraphsLock lock;
  if (!event.captured()) return CUDA_SUCCESS;
  if (!event.capture()->of->ended) invalidate(*event.capture()->of);
  return refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture");
}

void abandon_capture(Stream &stream) {
  if (!stream.capturing()) return;
  std::shared_ptr<Capture> capture;
  GraphsLock lock;
  if (!stream.capture()) return;
  capture = stream.capture()->of;
  stream.set_capture(nullptr);
  if (auto origin = capture->members.front().stream.lock(); origin && origin.get() != &stream)
    return;
  finish(capture);
  discard(*capture);
}

}  // namespace softdev::driver
