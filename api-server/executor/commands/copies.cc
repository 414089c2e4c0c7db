// Copies between guest and device, and on the device.
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>

#include "base/session_limits.h"
#include "commands/box.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_BoxUpload(Session &s, const wire_BoxUpload &in_place, Starts<Work::kCopy> work) {
  const wire_BoxUpload q = in_place;
  const auto posted = [&](CUresult result) { s.posted(WIRE_BoxUpload, result); };
  const Box box{q.width, q.height, q.depth};
  if (box.bytes() != q.length) return s.violation("a payload is not what its box takes");
  BoxEnd to;
  if (!find_box(s, q.array, q.x, q.y, q.z, box, &to)) return posted(CUDA_ERROR_INVALID_VALUE);
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (q.length == 0) return posted(CUDA_SUCCESS);
  uint8_t *staged = s.upload_staging().place(q.length, stream);
  if (!s.payload(staged, q.length)) return;
  count_alone(s.count().uploads);
  Gate::Pass pass = work.pass(stream, q.length);
  const CUDA_MEMCPY3D copy = to_device(to, staged, box);
  const CUresult result = pass->cuMemcpy3DAsync_v2(&copy, stream);
  s.upload_staging().copied();
  posted(pass.did(result));
}

void handle_BoxCopy(Session &s, const wire_BoxCopy &q, Starts<Work::kCopy> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_BoxCopy, result); };
  const Box box{q.width, q.height, q.depth};
  BoxEnd to, from;
  if (!find_box(s, q.to_array, q.to_x, q.to_y, q.to_z, box, &to) ||
      !find_box(s, q.from_array, q.from_x, q.from_y, q.from_z, box, &from)) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  Gate::Pass pass = work.pass(stream, box.bytes());
  const CUDA_MEMCPY3D copy = on_device(to, from, box);
  posted(pass.did(pass->cuMemcpy3DAsync_v2(&copy, stream)));
}

void handle_Copy2D(Session &s, const wire_Copy2D &q, Starts<Work::kCopy> work) {
  wire_BoxCopy copy{};
  copy.to_x = q.destination;
  copy.to_y = q.destination_pitch;
  copy.from_x = q.source;
  copy.from_y = q.source_pitch;
  copy.width = q.width;
  copy.height = q.height;
  copy.depth = 1;
  copy.stream = q.stream;
  handle_BoxCopy(s, copy, work);
}

namespace {

// Downloads up to this are answered by the leader when the device has nothing else to do first.
constexpr uint64_t kSmallDownload = 64 << 10;

// What is downloaded.
struct Asked {
  uint64_t request;
  BoxEnd from;
  Box box;
};

// Copies what begins at `offset` and is at most `most` bytes, and says how many.
CUresult copy_out(const Gate::Pass &pass, const Asked &asked, uint64_t offset, uint64_t most,
                  uint8_t *data, CUstream stream, uint64_t *length) {
  BoxEnd from = asked.from;
  const Box part = part_of(asked.box, offset, most, &from);
  *length = part.bytes();
  if (!from.array && part.height == 1 && part.depth == 1) {
    return pass->cuMemcpyDtoHAsync_v2(data, from.x, part.width, stream);
  }
  const CUDA_MEMCPY3D copy = to_host(data, from, part);
  return pass->cuMemcpy3DAsync_v2(&copy, stream);
}

// How long a guest may take to say that it has what lies in the region, before the rest of its
// download goes by the socket.
constexpr std::chrono::milliseconds kTakesAway{10};

// Where the driver has made a copy by the time that its call returns, more than so many pieces
// ahead of what is sent gain nothing: the guest would wait for all of them, and caches lose them
// again.
constexpr size_t kAhead = 2;

// A download, begun by the leader and carried out by a thread aside.
class Download {
 public:
  // `region`: where pieces may be put; null: all are sent.
  Download(Session &s, const Asked &asked, const Stream &stream, const Gate::Pass &pass,
           Region *region = nullptr)
      : s_(s),
        pass_(pass),
        staging_(s.device().download_chunks()),
        region_(region),
        asked_(asked),
        length_(asked.box.bytes()),
        transfer_{s.sequence(), stream} {}

  // Queues copies as far as there is pinned memory for them now. For the rest the stream is held,
  // and they are queued aside.
  void begin() {
    while (!all_queued()) {
      Chunk *chunk = region_ ? region_->try_take() : staging_.try_take();
      if (!chunk) break;
      if (!queue(chunk)) give(chunk);
      if (region_) {
        announce_done();
      } else if (pieces_.size() >= kAhead && is_done(pieces_.back())) {
        break;
      }
    }
    if (!all_queued()) result_ = detour();
    s_.transfers().add(&transfer_);
    added_ = true;
  }

  // The same where waiting for pinned memory stops nobody.
  void begin_aside() {
    s_.transfers().add(&transfer_);
    added_ = true;
  }

  void finish() {
    Chunk *last = nullptr;
    while (result_ == CUDA_SUCCESS && !last) {
      if (pieces_.empty()) {
        Chunk *chunk = take();
        if (!queue(chunk)) give(chunk);
        continue;
      }
      const Piece piece = pieces_.front();
      result_ = s_.driver().cuEventSynchronize(piece.chunk->events[0]);
      if (result_ != CUDA_SUCCESS) break;
      pieces_.pop_front();
      if (all_queued() && pieces_.empty()) {
        end_detour();
        settle();
        send_last(piece);
        last = piece.chunk;
      } else {
        send(piece);
      }
    }
    if (result_ != CUDA_SUCCESS) {
      for (const Piece &piece : pieces_) s_.driver().cuEventSynchronize(piece.chunk->events[0]);
      end_detour();
      settle();
      s_.answers().send(asked_.request, result_);
    }
    s_.transfers().remove(&transfer_);
    // Not before: others ask the last one's event about this download.
    if (last && !in_region(last)) staging_.give(last);
    for (const Piece &piece : pieces_) give(piece.chunk);
  }

 private:
  struct Piece {
    Chunk *chunk;
    uint64_t offset;
    size_t length;
  };

  bool is_done(const Piece &piece) const {
    return s_.driver().cuEventQuery(piece.chunk->events[0]) == CUDA_SUCCESS;
  }
  bool all_queued() const { return queued_ == length_ || result_ != CUDA_SUCCESS; }

  // ---- where pieces lie

  bool in_region(const Chunk *chunk) const { return placed_ && placed_->owns(chunk); }
  void give(Chunk *chunk) { in_region(chunk) ? placed_->give(chunk) : staging_.give(chunk); }

  Chunk *take() {
    if (region_) {
      if (Chunk *chunk = region_->take(kTakesAway)) return chunk;
      region_ = nullptr;
    }
    return staging_.take();
  }

  // What is not the last one. Its place takes the next piece; or those that the guest has taken do.
  void send(const Piece &piece) {
    if (in_region(piece.chunk)) {
      announce(piece, false);
      while (region_ && !all_queued()) {
        Chunk *chunk = region_->try_take();
        if (!chunk) break;
        if (!queue(chunk)) give(chunk);
      }
      return;
    }
    s_.answers().data(asked_.request, piece.offset, piece.chunk->data, piece.length);
    if (all_queued() || !queue(piece.chunk)) staging_.give(piece.chunk);
  }

  void send_last(const Piece &piece) {
    if (in_region(piece.chunk)) return announce(piece, true);
    s_.answers().last_data(asked_.request, piece.offset, piece.chunk->data, piece.length);
  }

  void announce(const Piece &piece, bool last) {
    const uint32_t slot = placed_->announce(piece.chunk);
    s_.answers().placed(asked_.request, piece.offset, piece.length, slot, last);
  }

  // The guest takes away what is there while more is copied.
  void announce_done() {
    while (pieces_.size() > (all_queued() ? 1 : 0) && is_done(pieces_.front())) {
      announce(pieces_.front(), false);
      pieces_.pop_front();
    }
  }

  // ---- how they get there

  // Copies go to a stream of their own behind what was queued so far, while the guest's own is held
  // until they are done: the leader need not wait before it puts more there.
  CUresult detour() {
    const Driver &driver = s_.driver();
    const CUstream stream = transfer_.stream.object;
    if (!s_.objects().take_side_stream()) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = driver.cuStreamCreateWithPriority(&side_, CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS) s_.objects().give_side_stream();
    CUevent here = nullptr;
    if (result == CUDA_SUCCESS) result = driver.cuEventCreate(&here, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) result = driver.cuEventRecord(here, stream);
    if (result == CUDA_SUCCESS) result = driver.cuStreamWaitEvent(side_, here, 0);
    if (here) driver.cuEventDestroy_v2(here);
    if (result == CUDA_SUCCESS) result = s_.host_functions().suspend(stream, &suspension_);
    if (result != CUDA_SUCCESS) suspension_ = 0;
    return result;
  }
  void end_detour() {
    if (suspension_) s_.host_functions().resume(suspension_);
    if (side_) {
      s_.driver().cuStreamDestroy_v2(side_);
      s_.objects().give_side_stream();
    }
    suspension_ = 0;
    side_ = nullptr;
  }

  // Queues the next copy, into `chunk`. False, and an error kept, when the driver refuses.
  bool queue(Chunk *chunk) {
    const CUstream stream = side_ ? side_ : transfer_.stream.object;
    uint64_t length;
    const uint64_t most = in_region(chunk) ? Region::kSlot : WIRE_BULK_MAX;
    result_ = copy_out(pass_, asked_, queued_, most, chunk->data, stream, &length);
    chunk->dirty = std::max<size_t>(chunk->dirty, length);
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
    s_.answers().output();
  }

  Session &s_;
  const Gate::Pass pass_;  // for all of it
  Staging &staging_;
  Region *region_;                  // where more pieces may be put,
  Region *const placed_ = region_;  // and where some may lie
  const Asked asked_;
  const uint64_t length_;
  Transfer transfer_;
  CUstream side_ = nullptr;
  uint64_t suspension_ = 0;
  bool added_ = false;
  uint64_t queued_ = 0;
  CUresult result_ = CUDA_SUCCESS;
  std::deque<Piece> pieces_;
};

// False when it is not one to be answered at once.
bool download_at_once(Session &s, const Asked &asked, const Stream &stream,
                      Starts<Work::kCopy> work) {
  const uint64_t bytes = asked.box.bytes();
  if (bytes > kSmallDownload || s.transfers().pending() || !s.objects().quiet(stream)) return false;
  Chunk *chunk = s.device().download_chunks().try_take();
  if (!chunk) return false;
  chunk->dirty = std::max<size_t>(chunk->dirty, bytes);
  const Gate::Pass pass = work.pass(stream.object, bytes);
  uint64_t length;
  CUresult result = copy_out(pass, asked, 0, WIRE_BULK_MAX, chunk->data, stream.object, &length);
  if (result == CUDA_SUCCESS) result = s.driver().cuStreamSynchronize(stream.object);
  s.answers().output();
  if (result == CUDA_SUCCESS) {
    s.answers().last_data(asked.request, 0, chunk->data, length);
  } else {
    s.answers().send(asked.request, result);
  }
  s.device().download_chunks().give(chunk);
  return true;
}

void download_box(Session &s, const Asked &asked, const Stream &stream, Starts<Work::kCopy> work,
                  Region *region = nullptr) {
  const uint64_t bytes = asked.box.bytes();
  if (bytes == 0) return s.answers().send(asked.request, CUDA_SUCCESS);
  count_alone(s.count().downloads);
  if (download_at_once(s, asked, stream, work)) return;
  if (s.transfers().count() >= session_limits.downloads) {
    return s.answers().send(asked.request, CUDA_ERROR_OUT_OF_MEMORY);
  }
  const auto download =
      std::make_shared<Download>(s, asked, stream, work.pass(stream.object, bytes), region);
  download->begin();
  if (s.download_chains().join(stream.object, [download] { download->finish(); })) return;
  s.hand_over();
  s.download_chains().run(stream.object);
}

}  // namespace

namespace {

// Of bytes in a row.
template <class Command>
void download_line(Session &s, const Command &q, Starts<Work::kCopy> work, Region *region) {
  const uint64_t request = q.request.request;
  if (!s.reachable(q.source, q.length)) return s.answers().send(request, CUDA_ERROR_INVALID_VALUE);
  Stream stream;
  if (!s.objects().find(q.stream, &stream))
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  download_box(s, {request, {nullptr, q.source, q.length, 1}, {q.length, 1, 1}}, stream, work,
               region);
}

}  // namespace

void handle_Download(Session &s, const wire_Download &q, Starts<Work::kCopy> work) {
  download_line(s, q, work, nullptr);
}

void handle_RegionDownload(Session &s, const wire_RegionDownload &q, Starts<Work::kCopy> work) {
  if (!s.region()) return s.violation("RegionDownload without a region");
  download_line(s, q, work, s.region());
}

void handle_BoxDownload(Session &s, const wire_BoxDownload &q, Starts<Work::kCopy> work) {
  Asked asked{q.request.request, {}, {q.width, q.height, q.depth}};
  if (asked.box.bytes() == UINT64_MAX ||
      !find_box(s, q.array, q.x, q.y, q.z, asked.box, &asked.from)) {
    return s.answers().send(asked.request, CUDA_ERROR_INVALID_VALUE);
  }
  Stream stream;
  if (!s.objects().find(q.stream, &stream))
    return s.answers().send(asked.request, CUDA_ERROR_INVALID_HANDLE);
  download_box(s, asked, stream, work);
}

void handle_PagesFetch(Session &s, const wire_PagesFetch &q, Starts<Work::kCopy> work) {
  const Asked asked = {q.request.request, {nullptr, q.address, q.length, 1}, {q.length, 1, 1}};
  if (q.length == 0) {
    // Until what was sent has arrived, as another device waits for it.
    if (!s.pages().here()) {
      s.hand_over();
      s.pages().arrive();
    }
    return s.answers().send(asked.request, CUDA_SUCCESS);
  }
  if (!s.reachable(q.address, q.length))
    return s.answers().send(asked.request, CUDA_ERROR_INVALID_VALUE);
  const Stream stream{s.pages().stream(), false};
  if (!stream.object) return s.answers().send(asked.request, CUDA_ERROR_OUT_OF_MEMORY);
  if (q.wait == 0 || (!s.transfers().pending() && s.objects().done())) {
    return download_box(s, asked, stream, work);
  }
  count_alone(s.count().downloads);
  const uint64_t sequence = s.sequence();
  Download late(s, asked, stream, work.pass(stream.object, q.length));
  s.hand_over();
  const CUresult result = s.driver().cuCtxSynchronize();
  s.transfers().settle(sequence, nullptr, true);
  if (result != CUDA_SUCCESS) return s.answers().synchronised(asked.request, result);
  s.answers().output();
  late.begin_aside();
  late.finish();
}

}  // namespace outboard
