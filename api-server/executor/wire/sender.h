// The way out: one frame at a time, whole, from any thread of the session. When the guest does not
// take what is sent, senders wait: the guest drains its side whenever it sends or waits itself, so
// this is backpressure and never a deadlock; and a session that is being stopped gives up.
//
// Lock: mutex_, the innermost one; nothing is called with it held.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>

#include "base/counters.h"
#include "kept_bytes.h"
#include "silence.h"
#include "wire.h"
#include "wire/reconnection.h"
#include "wire/records.h"

namespace outboard {

class Sender {
 public:
  // `reconnection` says what becomes of a connection that is cut, and outlives this. Where a guest
  // may come back, what is sent is kept, and counts as sent while it is away. `records` is of a
  // connection by TLS; null: it is none.
  Sender(int fd, Counters &counters, Reconnection &reconnection, Records *records);
  ~Sender();
  Sender(const Sender &) = delete;
  Sender &operator=(const Sender &) = delete;

  // Says which threads may be kept waiting for a guest that is away, so that what they have to send
  // need not be kept; none where this is not called. Before anything is sent.
  void may_wait(std::function<bool()> may_wait) { may_wait_ = std::move(may_wait); }

  // Sends the parts one behind the other, and changes the array. A descriptor, unless it is -1,
  // goes along with the first byte, which takes a Unix socket. `spent` is one of the parts whose
  // bytes nobody needs any more: they may be others afterwards. False when the connection is gone.
  bool send(iovec *parts, int count, int descriptor = -1, const iovec *spent = nullptr);

  // Sends a frame: `size` bytes, which begin with a header that is filled in here, and `length`
  // bytes of payload behind them, padded to 8, which may be spent. False when the connection is
  // gone.
  bool push(uint16_t op, void *frame, size_t size, const void *payload = nullptr, size_t length = 0,
            bool spent = false);

  // ---- of a session that moves from one process to another

  // What was sent on a connection whose guest may come back.
  struct Stream {
    kept_bytes kept{};
    bool cut = false;  // since so many bytes were sent, all is kept only
    uint64_t cut_at = 0;
  };
  // Copies at most `most` bytes of what is kept, from count *from on, or from where it begins now,
  // which becomes *from. Returns how many; 0: there are no more, or, unless `alone`, somebody
  // sends, who may wait for a guest that takes nothing. Any thread.
  size_t copy_kept(uint64_t *from, uint8_t *to, size_t most, bool alone);
  // The same without the bytes, where nobody sends; and how many were sent while others may send,
  // or 0 where one of them does not end soon.
  Stream stream();
  uint64_t sent_so_far();
  // Goes on with another connection, which lies under the same descriptor now. `stream`: what was
  // sent on it, which is taken; null: its guest does not come back.
  void begin_anew(Records *records, Stream *stream);
  // Says that the connection is another process's: nothing is sent any more.
  void leave();
  // As `push`, of a frame that is all its header and body, on a link. False where that would wait.
  bool push_at_once(uint16_t op, void *frame, size_t size);

  // Makes a guest that takes nothing for a moment count as gone from now on.
  void hurry() { hurried_.store(true, std::memory_order_relaxed); }

 private:
  std::unique_lock<std::mutex> lock_soon();
  void wait_shortly();
  bool send_sealed(iovec *parts, int count, const iovec *spent);
  bool send_records(std::span<iovec> records);
  bool send_rest(iovec *&parts, int &count, int descriptor);
  bool goes_on() const;
  void keep(const iovec *parts, int count, size_t size);
  bool keep_for_later(iovec *parts, int count);
  void await_room(std::unique_lock<std::mutex> &lock);
  bool restart(int fd, uint64_t received, const Reconnection::Answer &answer, Records *records);
  bool send_again(const uint8_t *at, size_t size);
  bool seal_again(const uint8_t *at, size_t size);

  const int fd_;
  const int limit_ms_ = silence_limit_ms();
  silence silence_{};
  Counters &counters_;
  Reconnection &reconnection_;
  Records *records_;
  std::function<bool()> may_wait_ = [] { return false; };
  std::mutex mutex_;
  bool broken_ = false;
  kept_bytes kept_{};  // from the beginning of the stream, where a guest may come back
  bool cut_ = false;   // since `cut_at_` was sent, all is kept only
  uint64_t cut_at_ = 0;
  std::condition_variable restarted_;
  std::atomic<bool> hurried_{false};
};

// The zeros that payloads are padded with.
inline constexpr uint8_t kPadding[8] = {};

}  // namespace outboard
