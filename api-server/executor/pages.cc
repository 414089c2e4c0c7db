#include "pages.h"

#include <cstring>

#include "dispatch.h"
#include "session.h"

namespace outboard {

CUstream Pages::stream() {
  if (stream_) return stream_;
  if (!last_ && driver_.cuEventCreate(&last_, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    last_ = nullptr;
    return nullptr;
  }
  if (driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
    stream_ = nullptr;
  }
  return stream_;
}

CUresult Pages::sent() {
  ++sent_;
  return driver_.cuEventRecord(last_, stream_);
}

void Pages::put_behind(CUstream stream, uint64_t &seen) {
  if (last_ && driver_.cuEventQuery(last_) == CUDA_ERROR_NOT_READY &&
      driver_.cuStreamWaitEvent(stream, last_, 0) != CUDA_SUCCESS) {
    return;  // the next one tries again
  }
  seen = sent_;
}

CUresult Pages::release() {
  CUresult first = CUDA_SUCCESS;
  if (stream_) first = driver_.cuStreamDestroy_v2(stream_);
  if (last_) {
    const CUresult result = driver_.cuEventDestroy_v2(last_);
    if (first == CUDA_SUCCESS) first = result;
  }
  stream_ = nullptr;
  last_ = nullptr;
  seen_by_legacy_ = sent_;
  return first;
}

namespace {

// Several short runs: their bytes one after the other, and then their table.
CUresult copy_runs(Session &s, const Gate::Pass &pass, const wire_PagesUpload &q,
                   const uint8_t *payload) {
  const uint64_t table = q.length - q.runs * sizeof(wire_page_run);
  uint64_t at = 0;
  for (uint64_t i = 0; i < q.runs; i++) {
    wire_page_run run;
    memcpy(&run, payload + table + i * sizeof run, sizeof run);
    if (run.size > table - at || !s.reachable(run.address, run.size)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result =
        pass->cuMemcpyHtoDAsync_v2(run.address, payload + at, run.size, s.pages().stream());
    if (result != CUDA_SUCCESS) return result;
    at += run.size;
  }
  return CUDA_SUCCESS;
}

}  // namespace

void handle_PagesUpload(Session &s, const wire_PagesUpload &in_place, Starts<Work::kCopy> work) {
  const wire_PagesUpload q = in_place;  // receiving the payload overwrites the frame
  const auto posted = [&](CUresult result) { s.posted(WIRE_PagesUpload, result); };
  if (q.length == 0 || q.runs > q.length / sizeof(wire_page_run) ||
      (q.runs == 0 && !s.reachable(q.address, q.length))) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  const CUstream stream = s.pages().stream();
  if (!stream) return posted(CUDA_ERROR_OUT_OF_MEMORY);
  uint8_t *staged = s.uploads().place(q.length, stream);
  if (!s.payload(staged, q.length)) return;
  count_alone(s.count().uploads);
  Gate::Pass pass = work.pass(stream, q.length);
  const CUresult result = q.runs ? copy_runs(s, pass, q, staged)
                                 : pass->cuMemcpyHtoDAsync_v2(q.address, staged, q.length, stream);
  s.uploads().copied();
  const CUresult marked = s.pages().sent();
  posted(pass.did(result == CUDA_SUCCESS ? marked : result));
}

}  // namespace outboard
