// What becomes of a session's connection that is cut: the guest connects again, names how many
// bytes of the stream it has received, and both sides send what the other lacks. The new socket
// takes the number of the old one, so nobody else notices. Frames do not know of it.
//
// Whoever reads the connection takes the new one (await, take): only there is it certain how many
// bytes were received, as what the old one still held is read first. Who sends goes on meanwhile:
// what it sends is kept.
//
// Lock: mutex_, inside that of the sender.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "wire/records.h"

namespace outboard {

class Reconnection {
 public:
  // `fd` stays the caller's. `grace`: how long a guest may be away; 0: a connection that is cut has
  // ended. `begun`: whether `fd` is the guest's; else that holds of what it is until `begin`.
  // Throws Error where no descriptor is left.
  Reconnection(int fd, std::chrono::milliseconds grace, bool begun = true);
  ~Reconnection();
  Reconnection(const Reconnection &) = delete;
  Reconnection &operator=(const Reconnection &) = delete;

  bool resumes() const { return resumes_.load(std::memory_order_relaxed); }
  // 0: it does not, and never will.
  std::chrono::milliseconds grace() const { return grace_; }

  // Hands a new connection in, which is this one's from now on. `received`: how many bytes the
  // guest has of those sent to it; `records`: of one by TLS. False, and `fd` is still the caller's:
  // `epoch` is not newer than that of another, or the session is over. The old connection ends with
  // it. Any thread.
  bool offer(int fd, uint64_t received, uint32_t epoch, std::unique_ptr<Records> records = nullptr);

  // For whoever reads, when the connection has ended with `error`: waits for another one and takes
  // it. True when there is one, and reading goes on where it was. `received`: bytes received so
  // far. Where `interrupt` is set and a signal wakes the caller, *interrupted is set: it may wait
  // again.
  bool await(uint64_t received, int error, const std::atomic<bool> *interrupt, bool *interrupted);
  // The same without waiting, when offered_fd() is readable.
  bool take(uint64_t received);
  // Readable when a connection was offered, or there will never be one.
  int offered_fd() const { return event_; }

  // Whether the connection has ended because nothing came any more, and not because somebody ended
  // it.
  bool silent() const { return silent_.load(); }

  // No other connection comes: the guest has said goodbye, its time is over, or the session's is.
  void give_up();
  bool given_up() const { return given_up_.load(); }

  // ---- of a session that moves from one process to another

  uint32_t epoch();
  // It is here now: `fd` is the guest's from now on. `epoch`: of the last connection that was
  // offered where it was; `silent`: as there.
  void begin(uint32_t epoch, bool silent);

  // Has the sender begin on a new connection: with the answer, then with what the guest has not
  // received. Called by whoever takes it, who closes `fd`. False: it cannot.
  using Answer = std::array<uint8_t, 27>;
  using Restart =
      std::function<bool(int fd, uint64_t received, const Answer &answer, Records *records)>;
  void on_restart(Restart restart) { restart_ = std::move(restart); }
  // Has whoever reads use the records of the connection that was taken, or none; the sender does
  // already. Called by whoever takes it.
  void on_records(std::function<void(std::unique_ptr<Records>)> use) { use_ = std::move(use); }
  // Told when a connection was taken.
  void on_resumed(std::function<void()> resumed) { resumed_ = std::move(resumed); }
  // Told when the connection has ended by silence, which whoever watches it may have seen before.
  void on_silence(std::function<void()> silence) { silence_ = std::move(silence); }
  uint64_t resumptions() const { return resumptions_.load(); }

 private:
  struct Offered {
    int fd;
    uint64_t received;
    std::unique_ptr<Records> records;
  };
  std::optional<Offered> next();

  const int fd_;
  const std::chrono::milliseconds grace_;
  std::atomic<bool> resumes_;
  int event_ = -1;
  std::atomic<bool> given_up_{false};
  std::atomic<bool> silent_{false};
  std::atomic<uint64_t> resumptions_{0};
  Restart restart_;
  std::function<void(std::unique_ptr<Records>)> use_;
  std::function<void()> resumed_;
  std::function<void()> silence_;

  std::mutex mutex_;
  uint32_t epoch_ = 0;
  std::optional<Offered> offered_;
};

// How a guest is told that its connection is taken, and from which byte on it is to send.
Reconnection::Answer resumed_answer(uint64_t received);

}  // namespace outboard
