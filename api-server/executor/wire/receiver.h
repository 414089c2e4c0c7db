// The way in: one buffer in which frames are decoded where they lie. Bulk payload goes past it,
// straight to where it is wanted. Used by one thread at a time, the session's leader.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/session_limits.h"
#include "silence.h"
#include "wire/reconnection.h"
#include "wire/records.h"

namespace outboard {

class Receiver {
 public:
  // `leftover` are bytes that arrived before the session began; they come first. `fd` stays the
  // caller's, as is `reconnection`, which says what becomes of a connection that is cut, and
  // `records`, of a connection by TLS; null: it is none. Throws Error when they are more than the
  // buffer holds.
  Receiver(int fd, std::span<const uint8_t> leftover, Counters &counters,
           Reconnection &reconnection, Records *records = nullptr);
  ~Receiver();
  Receiver(const Receiver &) = delete;

  // What has arrived and not been consumed; 8-byte aligned in memory.
  const uint8_t *data() const { return buffer_.get() + head_; }
  size_t available() const { return tail_ - head_; }

  // Waits until `need` bytes (at most kFrameSpace) are available. False when the connection has
  // ended, which errno explains: ENOTCONN where the guest closed it, ETIMEDOUT where the network
  // was given up. What data() has returned is not valid any more, here and in the next function.
  bool fill(size_t need);
  // The same; false, too, when `interrupt` is set and a signal wakes the calling thread:
  // `interrupted` tells that apart.
  bool fill(size_t need, const std::atomic<bool> &interrupt);
  bool interrupted() const { return interrupted_; }
  // Takes up what is there without waiting; true when there was nothing.
  bool nothing_readable();
  // Says that so many of the available bytes are done with. They stay where they are until the next
  // fill or payload.
  void consume(size_t bytes) { head_ += bytes; }

  // Takes up what has arrived and moves nothing of what is there. False when there is no more room
  // or no more to come.
  bool read_ahead();
  // Whether more has come than the descriptor tells of: in records that were not opened.
  bool waiting() const { return records_ && records_->waiting(); }
  bool has_room() const { return spilled_.size() < session_limits.read_ahead_bytes; }
  // Bytes from `offset` behind what has been consumed; false when they are not there yet.
  bool look_ahead(size_t offset, void *to, size_t size) const;
  // Whether so many bytes behind what has been consumed are there.
  bool is_ahead(size_t bytes) const {
    return bytes <= available() + (spilled_.size() - unspilled_);
  }
  // Puts `fixed` bytes in place of the first ones of the `size` from `offset` on, which are there,
  // and drops the others.
  void shorten(size_t offset, const void *bytes, size_t fixed, size_t size);
  // Returns all that has arrived and was not consumed.
  std::vector<uint8_t> unread() const;
  // How many bytes of the stream have been received.
  uint64_t received() const { return received_; }
  // Goes on with another connection, which lies under the same descriptor now: so many bytes of its
  // stream have been received already, of which `unread` are the last.
  void begin_anew(uint64_t received, std::vector<uint8_t> unread, Records *records);
  // Whether the guest is away, and who waited for it was interrupted.
  bool away() const { return away_; }
  // From now on a descriptor that comes with bytes is kept, until another one does; take_descriptor
  // returns it, which is the caller's then, or -1.
  void collect_descriptors() { collects_ = true; }
  int take_descriptor() { return std::exchange(descriptor_, -1); }
  int fd() const { return fd_; }
  // For who reads ahead, when there was no more to come: readable when read_ahead may find more
  // after all, if resume() is true then. -1: there is never more.
  int offered_fd() const { return reconnection_.resumes() ? reconnection_.offered_fd() : -1; }
  bool resume() { return reconnection_.take(received_); }
  // From now on the connection, another one, is by TLS or, where null, not.
  void use(Records *records) { records_ = records; }

  // Receives the next `length` bytes into `to`, and consumes `padded` bytes, for which `to` has
  // room. False when the connection has ended.
  bool payload(void *to, size_t length, size_t padded);
  // Consumes so many bytes, and waits for them. False when the connection has ended.
  bool discard(size_t bytes);

  static constexpr size_t kFrameSpace = 64 << 10;

 private:
  bool receive(int flags);
  ssize_t take(const iovec *parts, int count, int flags);
  void wait_shortly();
  bool goes_on(ssize_t got);
  void arrived(ssize_t got);
  size_t take_spilled(uint8_t *to, size_t most);
  void make_room(size_t need);

  static constexpr size_t kSize = 256 << 10;
  // After a large payload another one is likely: little is read beyond the next header, so that its
  // payload need not be copied out of the buffer.
  static constexpr size_t kAfterBulk = 4 << 10;
  static constexpr size_t kLargePayload = 128 << 10;

  struct Free {
    void operator()(uint8_t *p) const;
  };

  int fd_;
  Reconnection &reconnection_;
  Records *records_;
  uint64_t received_;  // bytes of the stream
  const int limit_ms_ = silence_limit_ms();
  silence silence_{};
  Counters &counters_;
  std::unique_ptr<uint8_t, Free> buffer_;
  size_t head_ = 0;
  size_t tail_ = 0;
  size_t space_ = kSize;  // how much the next read may take
  // Read ahead, and behind what is in the buffer; from `unspilled_` on it is still to come.
  std::vector<uint8_t> spilled_;
  size_t unspilled_ = 0;
  const std::atomic<bool> *interrupt_ = nullptr;  // while a wait may be interrupted
  bool interrupted_ = false;
  bool away_ = false;
  bool collects_ = false;
  int descriptor_ = -1;
};

}  // namespace outboard
