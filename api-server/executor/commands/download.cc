#include "commands/download.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/session_limits.h"
#include "base/waiting.h"
#include "session/session.h"

namespace outboard {

namespace {

// Downloads up to this are answered by the leader when the device has nothing else to do first.
constexpr uint64_t kSmallDownload = 64 << 10;

// How long a guest may take to say that it has what lies in the region, before the rest of its
// download goes by the socket.
constexpr std::chrono::milliseconds kTakesAway{10};

// Where the driver has made a copy by the time that its call returns, more than so many pieces
// ahead of what is sent gain nothing: the guest would wait for all of them, and caches lose them
// again.
constexpr size_t kAhead = 2;

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

// False when it is not one to be answered at once.
bool download_at_once(Session &s, const Asked &asked, const Stream &stream,
                      Starts<Work::kCopy> work) {
  const uint64_t bytes = asked.box.bytes();
  if (bytes > kSmallDownload || s.transfers().pending() || !s.objects().quiet(stream)) return false;
  Chunk *chunk = s.device().download_chunks().try_take();
  if (!chunk) return false;
  chunk->dirty = std::max<size_t>(chunk->dirty, bytes);
  const Gate::Pass pass = work.move(stream.object, bytes);
  uint64_t length;
  CUresult result = copy_out(pass, asked, 0, WIRE_BULK_MAX, chunk->data, stream.object, &length);
  if (result == CUDA_SUCCESS) result = wait_for(s.driver(), stream.object);
  s.answers().output();
  if (result == CUDA_SUCCESS) {
    s.answers().last_data(asked.request, 0, chunk->data, length);
  } else {
    s.answers().send(asked.request, result);
  }
  s.device().download_chunks().give(chunk);
  return true;
}

}  // namespace

void download(Session &s, const Asked &asked, const Stream &stream, Starts<Work::kCopy> work,
              Region *region) {
  const uint64_t bytes = asked.box.bytes();
  if (bytes == 0) return s.answers().send(asked.request, CUDA_SUCCESS);
  count_alone(s.count().downloads);
  if (download_at_once(s, asked, stream, work)) return;
  if (s.transfers().count() >= session_limits.downloads) {
    return s.answers().send(asked.request, CUDA_ERROR_OUT_OF_MEMORY);
  }
  const auto download =
      std::make_shared<Download>(s, asked, stream, work.move(stream.object, bytes), region);
  download->begin();
  // Nobody puts more into its stream before all of it is queued.
  if (download->stays()) return download->finish();
  if (s.download_chains().join(stream.object, [download] { download->finish(); })) return;
  s.hand_over();
  s.download_chains().run(stream.object);
}

Download::Download(Session &s, const Asked &asked, const Stream &stream, const Gate::Pass &pass,
                   Region *region)
    : s_(s),
      pass_(pass),
      staging_(s.device().download_chunks()),
      region_(region),
      asked_(asked),
      length_(asked.box.bytes()),
      transfer_{s.sequence(), stream} {}

void Download::begin() {
  may_detour_ = s_.detours().begin();
  // The guest has counted on no more of them where a stream takes only so many operations.
  unsigned left = wire_download_pieces(s_.device().stream_operations());
  while (!all_queued() && left-- > 0) {
    Chunk *chunk = region_ ? region_->try_take() : staging_.try_take();
    if (!chunk) break;
    if (!queue(chunk)) give(chunk);
    if (region_) {
      announce_done();
    } else if (pieces_.size() >= kAhead && is_done(pieces_.back())) {
      break;
    }
  }
  if (all_queued())
    end_detour();
  else if (may_detour_)
    result_ = detour();
  else
    stays_ = true;
  s_.transfers().add(&transfer_);
  added_ = true;
}

void Download::begin_aside() {
  s_.transfers().add(&transfer_);
  added_ = true;
}

void Download::finish() {
  Chunk *last = nullptr;
  while (result_ == CUDA_SUCCESS && !last) {
    if (pieces_.empty()) {
      Chunk *chunk = take();
      if (!queue(chunk)) give(chunk);
      continue;
    }
    const Piece piece = pieces_.front();
    result_ = wait_for(s_.driver(), piece.chunk->events[0]);
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

bool Download::is_done(const Piece &piece) const {
  return s_.driver().cuEventQuery(piece.chunk->events[0]) == CUDA_SUCCESS;
}

// ---- how pieces get to their places -------------------------------------------------------------

// Queues the next copy, into `chunk`. False, and an error kept, when the driver refuses.
bool Download::queue(Chunk *chunk) {
  const CUstream stream = side_ ? side_ : transfer_.stream.object;
  uint64_t length;
  const uint64_t most = in_region(chunk) ? s_.region()->slot() : WIRE_BULK_MAX;
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

// Copies go to a stream of their own behind what was queued so far, while the guest's own is held
// until they are done: the leader need not wait before it puts more there.
CUresult Download::detour() {
  const Driver &driver = s_.driver();
  const CUstream stream = transfer_.stream.object;
  if (!s_.objects().take_side_stream()) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = driver.cuStreamCreateWithPriority(&side_, CU_STREAM_NON_BLOCKING, 0);
  if (result != CUDA_SUCCESS) s_.objects().give_side_stream();
  CUevent here = nullptr;
  if (result == CUDA_SUCCESS) result = driver.cuEventCreate(&here, kWaitEvent);
  if (result == CUDA_SUCCESS) result = driver.cuEventRecord(here, stream);
  if (result == CUDA_SUCCESS) result = driver.cuStreamWaitEvent(side_, here, 0);
  if (here) driver.cuEventDestroy_v2(here);
  return result == CUDA_SUCCESS ? s_.device().detour_holds().hold(pass_, stream, &hold_) : result;
}

void Download::end_detour() {
  s_.device().detour_holds().let_go(pass_, side_, &hold_);
  if (side_) {
    s_.driver().cuStreamDestroy_v2(side_);
    s_.objects().give_side_stream();
  }
  side_ = nullptr;
  if (std::exchange(may_detour_, false)) s_.detours().end();
}

// ---- the places ---------------------------------------------------------------------------------

Chunk *Download::take() {
  if (region_) {
    if (Chunk *chunk = region_->take(kTakesAway)) return chunk;
    region_ = nullptr;
  }
  return staging_.take();
}

void Download::give(Chunk *chunk) {
  in_region(chunk) ? placed_->give(chunk) : staging_.give(chunk);
}

// ---- how they get to the guest ------------------------------------------------------------------

// What is not the last one. Its place takes the next piece; or those that the guest has taken do.
void Download::send(const Piece &piece) {
  if (in_region(piece.chunk)) {
    announce(piece, false);
    while (region_ && !all_queued()) {
      Chunk *chunk = region_->try_take();
      if (!chunk) break;
      if (!queue(chunk)) give(chunk);
    }
    return;
  }
  s_.answers().spent_data(asked_.request, piece.offset, piece.chunk->data, piece.length);
  if (all_queued() || !queue(piece.chunk)) staging_.give(piece.chunk);
}

void Download::send_last(const Piece &piece) {
  if (in_region(piece.chunk)) return announce(piece, true);
  s_.answers().last_data(asked_.request, piece.offset, piece.chunk->data, piece.length);
}

void Download::announce(const Piece &piece, bool last) {
  const uint32_t slot = placed_->announce(piece.chunk);
  s_.answers().placed(asked_.request, piece.offset, piece.length, slot, last);
}

// The guest takes away what is there while more is copied.
void Download::announce_done() {
  while (pieces_.size() > (all_queued() ? 1 : 0) && is_done(pieces_.front())) {
    announce(pieces_.front(), false);
    pieces_.pop_front();
  }
}

// What has to be sent before this download's answer.
void Download::settle() {
  s_.transfers().settle(transfer_.sequence, &transfer_.stream);
  s_.answers().output();
}

}  // namespace outboard
