// Pages that guest and device share: those that the guest has written, and those that the device
// has changed.
#include "session/pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

// Several short runs: their bytes one after the other, and then their table. With `left`, only
// these.
CUresult copy_runs(Session &s, const Gate::Pass &pass, const wire_PagesUpload &q,
                   const uint8_t *payload, std::span<const uint32_t> left) {
  const uint64_t table = q.length - q.runs * sizeof(wire_page_run);
  uint64_t at = 0;
  for (uint64_t i = 0; i < q.runs; i++) {
    wire_page_run run;
    memcpy(&run, payload + table + i * sizeof run, sizeof run);
    if (run.size > table - at || !s.reachable(run.address, run.size)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const bool wanted = left.empty() || std::ranges::binary_search(left, i);
    const CUresult result =
        wanted ? pass->cuMemcpyHtoDAsync_v2(run.address, payload + at, run.size, s.pages().stream())
               : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) return result;
    at += run.size;
  }
  return CUDA_SUCCESS;
}

}  // namespace

void handle_PagesUpload(Session &s, const wire_PagesUpload &in_place, Starts<Work::kCopy> work) {
  const wire_PagesUpload q = in_place;  // receiving the payload overwrites the frame
  const auto posted = [&](CUresult result) { s.posted(WIRE_PagesUpload, result); };
  // Of one that was carried before its turn: what is left.
  std::vector<uint32_t> left = s.left_of_pages();
  if (q.length == 0 || q.runs > q.length / sizeof(wire_page_run) ||
      (q.runs == 0 && !s.reachable(q.address, q.length))) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  const CUstream stream = s.pages().stream();
  if (!stream) return posted(CUDA_ERROR_OUT_OF_MEMORY);
  uint8_t *staged = nullptr;
  if (left.empty() && s.may_be_kept_waiting() && q.length <= PagePorter::kArea) {
    uint8_t *const carried = s.carried_pages().payload();
    if (!s.payload(carried, q.length)) return;
    count_alone(s.count().uploads);
    // What it did not carry, as it does not know the memory, is copied: that may be another's.
    const bool all = s.carry([&](CarriedPages &pages) { return pages.upload(q, &left); });
    if (all && left.empty()) return posted(CUDA_SUCCESS);
    staged = s.upload_staging().place(q.length, stream);
    memcpy(staged, carried, q.length);
  } else {
    staged = s.upload_staging().place(q.length, stream);
    if (!s.payload(staged, q.length)) return;
    count_alone(s.count().uploads);
  }
  Gate::Pass pass = work.move(stream, q.length);
  const CUresult result = q.runs ? copy_runs(s, pass, q, staged, left)
                                 : pass->cuMemcpyHtoDAsync_v2(q.address, staged, q.length, stream);
  s.upload_staging().copied();
  const CUresult marked = s.pages().sent();
  if (s.host_functions().pending()) s.pages().mark();
  posted(pass.started(result == CUDA_SUCCESS ? marked : result));
}

namespace {

// Pages as the device has them, in a chunk of pinned memory.
class Reading {
 public:
  Reading(Session &s, const Gate::Pass &pass, uint64_t address, uint64_t length)
      : s_(s),
        staging_(s.device().download_chunks()),
        pass_(pass),
        address_(address),
        length_(length),
        chunk_(staging_.try_take()) {
    if (chunk_) result_ = queue(chunk_);
  }
  ~Reading() {
    if (chunk_) staging_.give(chunk_);
  }
  Reading(const Reading &) = delete;
  Reading &operator=(const Reading &) = delete;

  CUresult finish() {
    if (!chunk_) {
      chunk_ = staging_.take();
      result_ = queue(chunk_);
    }
    if (result_ == CUDA_SUCCESS) result_ = s_.driver().cuEventSynchronize(chunk_->events[0]);
    return result_;
  }

  // Reads again, a few times, until nothing has changed since: what one kernel wrote before the
  // last thing that was seen of it is there then.
  CUresult steady() {
    for (unsigned i = 0; i < kTries && result_ == CUDA_SUCCESS; i++) {
      Chunk *again = staging_.try_take();
      if (!again) break;
      result_ = queue(again);
      if (result_ == CUDA_SUCCESS) result_ = s_.driver().cuEventSynchronize(again->events[0]);
      const bool same = memcmp(again->data, chunk_->data, length_) == 0;
      staging_.give(std::exchange(chunk_, again));
      if (same) break;
    }
    return result_;
  }

  const uint8_t *data() const { return chunk_->data; }

 private:
  static constexpr unsigned kTries = 4;

  CUresult queue(Chunk *chunk) {
    const CUstream stream = s_.pages().stream();
    chunk->dirty = std::max<size_t>(chunk->dirty, length_);
    CUresult result = pass_->cuMemcpyDtoHAsync_v2(chunk->data, address_, length_, stream);
    if (result == CUDA_SUCCESS) result = s_.driver().cuEventRecord(chunk->events[0], stream);
    if (result != CUDA_SUCCESS) s_.driver().cuStreamSynchronize(stream);
    return result;
  }

  Session &s_;
  Staging &staging_;
  const Gate::Pass &pass_;
  const uint64_t address_, length_;
  Chunk *chunk_;
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace

// Pages are sent as the device has them at this moment: nobody waits for work, and whether there is
// any is told. The next thread leads while the copy is under way.
void handle_PagesChanged(Session &s, const wire_PagesChanged &q, std::span<const uint8_t> hashes,
                         Starts<Work::kCopy> work) {
  const uint64_t request = q.request.request;
  const uint64_t address = q.address, length = q.length;
  if (!Differences::can_tell(address, length, hashes) || !s.reachable(address, length)) {
    return s.answers().send(request, CUDA_ERROR_INVALID_VALUE);
  }
  if (s.may_be_kept_waiting() &&
      s.carry([&](CarriedPages &pages) { return pages.changed(q, hashes); })) {
    return count_alone(s.count().downloads);
  }
  const Differences differences(address, length, hashes);
  const CUstream stream = s.pages().stream();
  if (!stream) return s.answers().send(request, CUDA_ERROR_OUT_OF_MEMORY);
  const bool settled = !s.transfers().pending() && s.objects().done();
  if (settled) {
    // The guest will not ask for the errors of this work again.
    const CUresult result = s.driver().cuCtxSynchronize();
    if (result != CUDA_SUCCESS) return s.answers().synchronised(request, result);
    s.answers().output();
  }
  count_alone(s.count().downloads);
  const Gate::Pass pass = work.move(stream, length);
  const Session::ReadsPages reads(s);
  Reading reading(s, pass, address, length);
  s.hand_over();
  CUresult result = reading.finish();
  if (result == CUDA_SUCCESS && !settled && differences.any(reading.data())) {
    result = reading.steady();
  }
  if (result == CUDA_SUCCESS)
    return differences.tell(s.answers(), request, reading.data(), settled);
  wire_PagesChanged_reply reply{};
  reply.settled = settled;
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

}  // namespace outboard
