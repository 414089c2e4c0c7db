// Copies between guest and device, and on the device.
#include <algorithm>
#include <deque>

#include "dispatch.h"
#include "session.h"
#include "span.h"

namespace outboard {

void handle_Upload(Session &s, const wire_Upload &in_place, Starts<Work::kCopy> work) {
  const wire_Upload q = in_place;  // receiving the payload overwrites the frame
  const auto posted = [&](CUresult result) { s.posted(WIRE_Upload, result); };
  if (!s.reachable(q.destination, q.length)) return posted(CUDA_ERROR_INVALID_VALUE);
  CUstream stream;
  if (!s.find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (q.length == 0) return posted(CUDA_SUCCESS);
  uint8_t *staged = s.uploads().place(q.length, stream);
  if (!s.payload(staged, q.length)) return;
  count_alone(s.count().uploads);
  Gate::Pass pass = work.pass(stream, q.length);
  const CUresult result = pass->cuMemcpyHtoDAsync_v2(q.destination, staged, q.length, stream);
  s.uploads().copied();
  posted(pass.did(result));
}

void handle_Copy2D(Session &s, const wire_Copy2D &q, Starts<Work::kCopy> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_Copy2D, result); };
  if (!s.reachable(q.destination, span_2d(q.destination_pitch, q.height, q.width)) ||
      !s.reachable(q.source, span_2d(q.source_pitch, q.height, q.width))) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  CUstream stream;
  if (!s.find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = q.source;
  copy.srcPitch = q.source_pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = q.destination;
  copy.dstPitch = q.destination_pitch;
  copy.WidthInBytes = q.width;
  copy.Height = q.height;
  Gate::Pass pass = work.pass(stream, span_1d(q.width, q.height));
  posted(pass.did(pass->cuMemcpy2DAsync_v2(&copy, stream)));
}

namespace {

// Downloads up to this are answered by the leader when the device has nothing else to do first.
constexpr uint64_t kSmallDownload = 64 << 10;

// A download carried out by the thread that began it, while another one leads.
class Download {
 public:
  Download(Session &s, const wire_Download &q, const Stream &stream, const Gate::Pass &pass)
      : s_(s),
        pass_(pass),
        staging_(s.device().downloads()),
        request_(q.request.request),
        source_(q.source),
        length_(q.length),
        transfer_{s.sequence(), stream} {}

  // Queues copies as far as there is pinned memory for them now; the rest holds the stream.
  void begin() {
    const bool free = !s_.transfers().held(transfer_.stream, transfer_.sequence);
    while (free && !all_queued()) {
      Chunk *chunk = staging_.try_take();
      if (!chunk) break;
      if (!queue(chunk)) staging_.give(chunk);
    }
    s_.transfers().add(&transfer_);
    added_ = true;
  }

  void finish() {
    if (!all_queued()) s_.transfers().await(transfer_.stream, transfer_.sequence);
    Chunk *last = nullptr;
    while (result_ == CUDA_SUCCESS && !last) {
      if (pieces_.empty()) {
        Chunk *chunk = staging_.take();
        if (!queue(chunk)) staging_.give(chunk);
        continue;
      }
      const Piece piece = pieces_.front();
      result_ = s_.driver().cuEventSynchronize(piece.chunk->events[0]);
      if (result_ != CUDA_SUCCESS) break;
      pieces_.pop_front();
      if (all_queued() && pieces_.empty()) {
        settle();
        s_.answer_with_data(request_, piece.offset, piece.chunk->data, piece.length);
        last = piece.chunk;
      } else {
        s_.send_data(request_, piece.offset, piece.chunk->data, piece.length);
        if (all_queued() || !queue(piece.chunk)) staging_.give(piece.chunk);
      }
    }
    if (result_ != CUDA_SUCCESS) {
      for (const Piece &piece : pieces_) s_.driver().cuEventSynchronize(piece.chunk->events[0]);
      settle();
      s_.answer(request_, result_);
    }
    s_.transfers().remove(&transfer_);
    // Not before: others ask the last one's event about this download.
    if (last) staging_.give(last);
    for (const Piece &piece : pieces_) staging_.give(piece.chunk);
  }

 private:
  struct Piece {
    Chunk *chunk;
    uint64_t offset;
    size_t length;
  };

  bool all_queued() const { return queued_ == length_ || result_ != CUDA_SUCCESS; }

  // Queues the next copy, into `chunk`. False, and an error kept, when the driver refuses.
  bool queue(Chunk *chunk) {
    const size_t length = std::min<uint64_t>(length_ - queued_, WIRE_BULK_MAX);
    const CUstream stream = transfer_.stream.object;
    chunk->dirty = std::max(chunk->dirty, length);
    result_ = pass_->cuMemcpyDtoHAsync_v2(chunk->data, source_ + queued_, length, stream);
    if (result_ == CUDA_SUCCESS) {
      result_ = s_.driver().cuEventRecord(chunk->events[0], stream);
      if (result_ != CUDA_SUCCESS) s_.driver().cuStreamSynchronize(stream);
    }
    if (result_ != CUDA_SUCCESS) return false;
    pieces_.push_back({chunk, queued_, length});
    queued_ += length;
    if (queued_ == length_) {
      if (added_) {
        s_.transfers().queued(&transfer_, chunk->events[0]);
      } else {
        transfer_.last = chunk->events[0];
      }
    }
    return true;
  }

  // What has to be sent before this download's answer.
  void settle() {
    s_.transfers().settle(transfer_.sequence, &transfer_.stream);
    s_.flush_output();
  }

  Session &s_;
  const Gate::Pass pass_;  // for all of it
  Staging &staging_;
  const uint64_t request_;
  const uint64_t source_;
  const uint64_t length_;
  Transfer transfer_;
  bool added_ = false;
  uint64_t queued_ = 0;
  CUresult result_ = CUDA_SUCCESS;
  std::deque<Piece> pieces_;
};

// False when it is not one to be answered at once.
bool download_at_once(Session &s, const wire_Download &q, const Stream &stream,
                      Starts<Work::kCopy> work) {
  if (q.length > kSmallDownload || s.transfers().pending() || !s.quiet(stream)) return false;
  Chunk *chunk = s.device().downloads().try_take();
  if (!chunk) return false;
  chunk->dirty = std::max<size_t>(chunk->dirty, q.length);
  const Gate::Pass pass = work.pass(stream.object, q.length);
  CUresult result = pass->cuMemcpyDtoHAsync_v2(chunk->data, q.source, q.length, stream.object);
  if (result == CUDA_SUCCESS) result = s.driver().cuStreamSynchronize(stream.object);
  s.flush_output();
  if (result == CUDA_SUCCESS) {
    s.answer_with_data(q.request.request, 0, chunk->data, q.length);
  } else {
    s.answer(q.request.request, result);
  }
  s.device().downloads().give(chunk);
  return true;
}

}  // namespace

void handle_Download(Session &s, const wire_Download &q, Starts<Work::kCopy> work) {
  const uint64_t request = q.request.request;
  if (!s.reachable(q.source, q.length)) return s.answer(request, CUDA_ERROR_INVALID_VALUE);
  Stream stream;
  if (!s.peek(q.stream, &stream)) return s.answer(request, CUDA_ERROR_INVALID_HANDLE);
  if (q.length == 0) return s.answer(request, CUDA_SUCCESS);
  count_alone(s.count().downloads);
  if (download_at_once(s, q, stream, work)) return;
  Download download(s, q, stream, work.pass(stream.object, q.length));
  download.begin();
  s.hand_over();
  download.finish();
}

}  // namespace outboard
