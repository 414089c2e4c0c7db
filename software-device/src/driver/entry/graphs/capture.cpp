// Entry points: capture of streams.
#include "graphs/capture.h"

#include "entry/entry.h"

using namespace softdev::driver;

namespace {

bool known(CUstreamCaptureMode mode) {
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
         mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

std::vector<Tip> tips_of(const std::vector<Edge> &edges) {
  std::vector<Tip> tips;
  for (const Edge &edge : edges) tips.push_back({edge.node->self(), edge.data});
  return tips;
}

CUresult begin(CUstream handle, CUstreamCaptureMode mode, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    GraphsLock lock;
    return begin_capture(stream, mode, nullptr, {});
  });
}

CUresult begin_into(CUstream handle, CUgraph graph_handle, const CUgraphNode *nodes,
                    const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode,
                    Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    GraphsLock lock;
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(graph_handle, &graph)) return bad;
    std::vector<Edge> edges;
    if (CUresult bad = find_edges(*graph, nodes, data, count, &edges)) return bad;
    return begin_capture(stream, mode, graph, tips_of(edges));
  });
}

CUresult end(CUstream handle, CUgraph *out, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (out) *out = nullptr;
  return guarded([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    GraphsLock lock;
    // A graph that was there before need not be told.
    if (!out && stream->capture() && !stream->capture()->of->into_existing)
      return CUDA_ERROR_INVALID_VALUE;
    CUresult result = end_capture(stream, &graph);
    if (graph && out) *out = as_handle<CUgraph>(*graph);
    lock.unlock();
    return result;
  });
}

CUresult is_capturing(CUstream handle, CUstreamCaptureStatus *status, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream->role == Stream::Role::kLegacy) return admit(stream, Use::kLook);
  if (!stream->capturing()) return CUDA_SUCCESS;
  GraphsLock lock;
  if (!stream->capture()) return CUDA_SUCCESS;
  *status = check_valid(*stream->capture()->of) ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

struct Answers {
  CUstreamCaptureStatus *status;
  cuuint64_t *id = nullptr;
  CUgraph *graph = nullptr;
  const CUgraphNode **nodes = nullptr;
  const CUgraphEdgeData **data = nullptr;
  size_t *count = nullptr;
};

CUresult info(CUstream handle, const Answers &answers, Default null) {
  if (CUresult bad = is_capturing(handle, answers.status, null)) return bad;
  if (*answers.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  return guarded([&]() -> CUresult {
    GraphsLock lock;
    if (!stream->capture()) return CUDA_ERROR_ILLEGAL_STATE;
    StreamCapture &state = *stream->capture();
    state.told.clear();
    state.told_data.clear();
    bool plain = true;
    for (const Tip &tip : state.tips) {
      if (!tip.node->graph) continue;
      state.told.push_back(as_handle<CUgraphNode>(*tip.node));
      state.told_data.push_back(tip.data);
      plain = plain && is_plain(tip.data);
    }
    if (answers.nodes && !answers.data && !plain)
      return refuse(CUDA_ERROR_LOSSY_QUERY, "the dependencies have ports or types");
    if (answers.id) *answers.id = state.of->id;
    if (answers.graph) *answers.graph = as_handle<CUgraph>(*state.of->graph);
    if (answers.nodes) *answers.nodes = state.told.data();
    if (answers.data) *answers.data = state.told_data.data();
    if (answers.count) *answers.count = state.told.size();
    return CUDA_SUCCESS;
  });
}

CUresult update(CUstream handle, const CUgraphNode *nodes, const CUgraphEdgeData *data,
                size_t count, unsigned flags, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    GraphsLock lock;
    if (!stream->capture())
      return refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is not being captured");
    StreamCapture &state = *stream->capture();
    if (CUresult bad = check_valid(*state.of)) return bad;
    std::vector<Edge> edges;
    if (CUresult bad = find_edges(*state.of->graph, nodes, data, count, &edges)) return bad;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) state.tips.clear();
    add_tips(&state.tips, tips_of(edges));
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

#define BOTH(name, parameters, legacy_call, per_thread_call) \
  CUresult name parameters { return legacy_call; }           \
  CUresult name##_ptsz parameters { return per_thread_call; }
#define LEGACY Default::kLegacy
#define PER_THREAD Default::kPerThread

BOTH(cuStreamBeginCapture, (CUstream stream), begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, LEGACY),
     begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, PER_THREAD))
BOTH(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
     begin(stream, mode, LEGACY), begin(stream, mode, PER_THREAD))
BOTH(cuStreamBeginCaptureToGraph,
     (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *data,
      size_t count, CUstreamCaptureMode mode),
     begin_into(stream, graph, nodes, data, count, mode, LEGACY),
     begin_into(stream, graph, nodes, data, count, mode, PER_THREAD))
BOTH(cuStreamEndCapture, (CUstream stream, CUgraph *graph), end(stream, graph, LEGACY),
     end(stream, graph, PER_THREAD))
BOTH(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
     is_capturing(stream, status, LEGACY), is_capturing(stream, status, PER_THREAD))

BOTH(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
     info(stream, {status, id}, LEGACY), info(stream, {status, id}, PER_THREAD))
BOTH(cuStreamGetCaptureInfo_v2,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
      const CUgraphNode **nodes, size_t *count),
     info(stream, {status, id, graph, nodes, nullptr, count}, LEGACY),
     info(stream, {status, id, graph, nodes, nullptr, count}, PER_THREAD))
BOTH(cuStreamGetCaptureInfo_v3,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
      const CUgraphNode **nodes, const CUgraphEdgeData **data, size_t *count),
     info(stream, {status, id, graph, nodes, data, count}, LEGACY),
     info(stream, {status, id, graph, nodes, data, count}, PER_THREAD))
BOTH(cuStreamUpdateCaptureDependencies,
     (CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags),
     update(stream, nodes, nullptr, count, flags, LEGACY),
     update(stream, nodes, nullptr, count, flags, PER_THREAD))
BOTH(cuStreamUpdateCaptureDependencies_v2,
     (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count,
      unsigned int flags),
     update(stream, nodes, data, count, flags, LEGACY),
     update(stream, nodes, data, count, flags, PER_THREAD))

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  if (CUresult bad = enter()) return bad;
  if (!mode || !known(*mode)) return CUDA_ERROR_INVALID_VALUE;
  *mode = exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}

}  // extern "C"

#undef LEGACY
#undef PER_THREAD
