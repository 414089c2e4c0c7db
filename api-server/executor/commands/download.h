// Downloads: what is copied to pinned memory piece by piece, and sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "commands/box.h"
#include "copies/detour_holds.h"
#include "copies/region.h"
#include "copies/staging.h"
#include "copies/transfers.h"
#include "gate/gate.h"

namespace outboard {

// What is downloaded.
struct Asked {
  uint64_t request;
  BoxEnd from;
  Box box;
};

// Downloads and answers: at once, or after the lead was handed over. For the leader, which does not
// lead any more then. `region`: where pieces may
// be put; null: all are sent.
void download(Session &s, const Asked &asked, const Stream &stream, Starts<Work::kCopy> work,
              Region *region = nullptr);

// A download, begun by the leader. The thread that was the leader finishes it, once it has handed
// the lead over; or the thread that finishes an earlier download of the same stream.
class Download {
 public:
  Download(Session &s, const Asked &asked, const Stream &stream, const Gate::Pass &pass,
           Region *region = nullptr);

  // Queues copies until no pinned memory is free, until enough of them are there already, or until
  // they are as many as the stream may get (wire_download_pieces). For the rest the stream is held,
  // and they are queued aside.
  void begin();
  // Whether the stream is not held though there is a rest, as code is being loaded: the leader
  // finishes it, and leads on.
  bool stays() const { return stays_; }
  // The same for one that a thread which does not lead begins and finishes, as it may wait for
  // pinned memory (handle_PagesFetch).
  void begin_aside();
  // Sends all, and the answer.
  void finish();

 private:
  struct Piece {
    Chunk *chunk;
    uint64_t offset;
    size_t length;
  };

  bool all_queued() const { return queued_ == length_ || result_ != CUDA_SUCCESS; }
  bool is_done(const Piece &piece) const;
  bool in_region(const Chunk *chunk) const { return placed_ && placed_->owns(chunk); }

  // How pieces get to their places.
  bool queue(Chunk *chunk);
  CUresult detour();
  void end_detour();

  // The places.
  Chunk *take();
  void give(Chunk *chunk);

  // How they get to the guest.
  void send(const Piece &piece);
  void send_last(const Piece &piece);
  void announce(const Piece &piece, bool last);
  void announce_done();
  void settle();

  Session &s_;
  const Gate::Pass pass_;  // for all of it
  Staging &staging_;
  Region *region_;                  // where more pieces may be put,
  Region *const placed_ = region_;  // and where some may lie
  const Asked asked_;
  const uint64_t length_;
  Transfer transfer_;
  CUstream side_ = nullptr;
  DetourHolds::Hold hold_;
  bool may_detour_ = false;
  bool stays_ = false;
  bool added_ = false;
  uint64_t queued_ = 0;
  CUresult result_ = CUDA_SUCCESS;
  std::deque<Piece> pieces_;
};

}  // namespace outboard
