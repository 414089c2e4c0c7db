// Entry points: capture of streams.
#include <stdlib.h>

#include "capture/internal.h"
#include "guest_calls.h"
#include "streams/stream.h"
#include "wire/order.h"

static _Bool known(CUstreamCaptureMode mode) {
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
         mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult guest_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
  const struct graph_edges none = {0};
  graphs_lock();
  result = capture_begin(stream, mode, NULL, &none);
  graphs_unlock();
  return result;
}

CUresult guest_cuStreamBeginCapture(CUstream hStream, int per_thread) {
  return guest_cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, per_thread);
}

CUresult guest_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                           const CUgraphNode *dependencies,
                                           const CUgraphEdgeData *dependencyData,
                                           size_t numDependencies, CUstreamCaptureMode mode,
                                           int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_find(hGraph);
  struct graph_edges edges = {0};
  result = graph ? graph_find_edges(graph, dependencies, dependencyData, numDependencies, &edges)
                 : CUDA_ERROR_INVALID_VALUE;
  if (!result) result = capture_begin(stream, mode, graph, &edges);
  graph_edges_free(&edges);
  graphs_unlock();
  return result;
}

CUresult guest_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  if (phGraph) *phGraph = NULL;
  struct capture *capture;
  struct capture_member *member;
  struct graph *graph = NULL;
  graphs_lock();
  // A graph that was there before need not be told.
  if (!phGraph && capture_find(stream, &capture, &member) && !capture->into_existing)
    result = CUDA_ERROR_INVALID_VALUE;
  else
    result = capture_end(stream, &graph);
  if (graph && phGraph) *phGraph = (CUgraph)(uintptr_t)graph->handle;
  graphs_unlock();
  return result;
}

// With the lock.
static CUresult status_of(uint64_t stream, CUstreamCaptureStatus *status) {
  struct capture *capture;
  struct capture_member *member;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream == STREAM_LEGACY_WIRE) return capture_check_legacy(1);
  if (capture_find(stream, &capture, &member))
    *status = capture_check_valid(capture) ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus,
                                   int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  if (!captureStatus) return CUDA_ERROR_INVALID_VALUE;
  *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!capture_active()) return CUDA_SUCCESS;
  graphs_lock();
  result = status_of(stream, captureStatus);
  graphs_unlock();
  return result;
}

struct answers {
  CUstreamCaptureStatus *status;
  cuuint64_t *id;
  CUgraph *graph;
  const CUgraphNode **nodes;
  const CUgraphEdgeData **data;
  size_t *count;
};

// What was told before stays where it is while there is room.
static _Bool told_room(struct capture_member *member, size_t room) {
  if (room <= member->told_room) return 1;
  free(member->told);
  free(member->told_data);
  member->told = malloc(room * sizeof(CUgraphNode));
  member->told_data = malloc(room * sizeof(CUgraphEdgeData));
  member->told_room = member->told && member->told_data ? room : 0;
  return member->told_room != 0;
}

// With the lock.
static CUresult tell(uint64_t stream, const struct answers *answers) {
  struct capture *capture;
  struct capture_member *member;
  capture_find(stream, &capture, &member);
  size_t count = 0;
  if (!told_room(member, member->tips.count + 1)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUgraphNode *told = member->told;
  CUgraphEdgeData *told_data = member->told_data;
  _Bool plain = 1;
  for (uint32_t i = 0; i < member->tips.count; i++) {
    const struct graph_edge *tip = &member->tips.at[i];
    if (!tip->node->graph) continue;
    told[count] = (CUgraphNode)(uintptr_t)tip->node->handle;
    told_data[count++] = tip->data;
    plain = plain && graph_is_plain(tip->data);
  }
  if (answers->nodes && !answers->data && !plain) return CUDA_ERROR_LOSSY_QUERY;
  if (answers->id) *answers->id = capture->id;
  if (answers->graph) *answers->graph = (CUgraph)(uintptr_t)capture->graph->handle;
  if (answers->nodes) *answers->nodes = count ? told : NULL;
  if (answers->data) *answers->data = count ? told_data : NULL;
  if (answers->count) *answers->count = count;
  return CUDA_SUCCESS;
}

static CUresult info(CUstream hStream, const struct answers *answers, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  if (!answers->status) return CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  result = status_of(stream, answers->status);
  if (!result && *answers->status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
    result = tell(stream, answers);
  graphs_unlock();
  return result;
}

CUresult guest_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                      cuuint64_t *id_out, int per_thread) {
  const struct answers answers = {.status = captureStatus_out, .id = id_out};
  return info(hStream, &answers, per_thread);
}

CUresult guest_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                         cuuint64_t *id_out, CUgraph *graph_out,
                                         const CUgraphNode **dependencies_out,
                                         size_t *numDependencies_out, int per_thread) {
  const struct answers answers = {captureStatus_out, id_out, graph_out,
                                  dependencies_out,  NULL,   numDependencies_out};
  return info(hStream, &answers, per_thread);
}

CUresult guest_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                         cuuint64_t *id_out, CUgraph *graph_out,
                                         const CUgraphNode **dependencies_out,
                                         const CUgraphEdgeData **edgeData_out,
                                         size_t *numDependencies_out, int per_thread) {
  const struct answers answers = {captureStatus_out, id_out,       graph_out,
                                  dependencies_out,  edgeData_out, numDependencies_out};
  return info(hStream, &answers, per_thread);
}

CUresult guest_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                                    const CUgraphEdgeData *dependencyData,
                                                    size_t numDependencies, unsigned int flags,
                                                    int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  struct capture *capture;
  struct capture_member *member;
  struct graph_edges edges = {0};
  graphs_lock();
  if (!capture_find(stream, &capture, &member))
    result = CUDA_ERROR_ILLEGAL_STATE;
  else if (!(result = capture_check_valid(capture)))
    result =
        graph_find_edges(capture->graph, dependencies, dependencyData, numDependencies, &edges);
  if (!result) {
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) tips_free(&member->tips);
    if (!tips_add(&member->tips, &edges)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  graph_edges_free(&edges);
  graphs_unlock();
  return result;
}

CUresult guest_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                                 size_t numDependencies, unsigned int flags,
                                                 int per_thread) {
  return guest_cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies,
                                                    flags, per_thread);
}

CUresult guest_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  if (!mode || !known(*mode)) return CUDA_ERROR_INVALID_VALUE;
  *mode = capture_exchange_mode(*mode);
  return CUDA_SUCCESS;
}
