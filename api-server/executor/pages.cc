#include "pages.h"

#include <algorithm>
#include <cstring>

#include "dispatch.h"
#include "page_hash.h"
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

// Pages are sent as the device has them at this moment: nobody waits for work, and whether there is
// any is told. The next thread leads while the copy is under way.
void handle_PagesChanged(Session &s, const wire_PagesChanged &q, std::span<const uint8_t> hashes,
                         Starts<Work::kCopy> work) {
  const uint64_t request = q.request.request;
  const uint64_t address = q.address, length = q.length;
  const uint64_t pages = (address % WIRE_PAGE + length + WIRE_PAGE - 1) / WIRE_PAGE;
  if (length == 0 || length > Chunk::kSize || pages > WIRE_PAGES_MAX ||
      !s.reachable(address, length) ||
      (!hashes.empty() && hashes.size() != pages * sizeof(uint64_t))) {
    return s.answer(request, CUDA_ERROR_INVALID_VALUE);
  }
  uint64_t known[WIRE_PAGES_MAX];
  if (!hashes.empty()) memcpy(known, hashes.data(), hashes.size());
  const bool all = hashes.empty();
  const CUstream stream = s.pages().stream();
  if (!stream) return s.answer(request, CUDA_ERROR_OUT_OF_MEMORY);
  const bool settled = !s.transfers().pending() && s.done();
  if (settled) {
    // The guest will not ask for the errors of this work again.
    const CUresult result = s.driver().cuCtxSynchronize();
    if (result != CUDA_SUCCESS) return s.synchronised(request, result);
    s.flush_output();
  }
  count_alone(s.count().downloads);
  Gate::Pass pass = work.pass(stream, length);
  Staging &staging = s.device().downloads();
  Chunk *chunk = staging.try_take();
  const auto queue = [&] {
    chunk->dirty = std::max<size_t>(chunk->dirty, length);
    CUresult result = pass->cuMemcpyDtoHAsync_v2(chunk->data, address, length, stream);
    if (result == CUDA_SUCCESS) result = s.driver().cuEventRecord(chunk->events[0], stream);
    if (result != CUDA_SUCCESS) s.driver().cuStreamSynchronize(stream);
    return result;
  };
  CUresult result = chunk ? queue() : CUDA_SUCCESS;
  const bool queued = chunk != nullptr;
  s.hand_over();
  if (!queued) {
    chunk = staging.take();
    result = queue();
  }
  if (result == CUDA_SUCCESS) result = s.driver().cuEventSynchronize(chunk->events[0]);
  wire_PagesChanged_reply reply{};
  uint64_t *const changed[] = {&reply.changed0, &reply.changed1, &reply.changed2, &reply.changed3};
  uint64_t run = 0, run_end = 0;  // bytes that are to be sent
  for (uint64_t i = 0, at = 0; i < pages && result == CUDA_SUCCESS; i++) {
    const uint64_t end = std::min(length, (i + 1) * WIRE_PAGE - address % WIRE_PAGE);
    if (all || wire_page_hash(chunk->data + at, end - at) != known[i]) {
      *changed[i / 64] |= uint64_t{1} << i % 64;
      if (run_end != at) {
        if (run_end > run) s.send_data(request, run, chunk->data + run, run_end - run);
        run = at;
      }
      run_end = end;
    }
    at = end;
  }
  if (result == CUDA_SUCCESS && run_end > run) {
    s.send_data(request, run, chunk->data + run, run_end - run);
  }
  staging.give(chunk);
  reply.settled = settled;
  s.answer(request, result, &reply.reply, sizeof reply);
}

}  // namespace outboard
