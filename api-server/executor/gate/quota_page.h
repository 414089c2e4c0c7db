// The page of memory through which the monitor says how much a slot's session may do, and reads
// what it has done. It lies in a memory file that the monitor makes and the API server process
// inherits as a descriptor, so nothing of it can be left behind.
//
// This is the layout; api-server/src/quota-page.ts has it for TypeScript. Words are 64 bits, little
// endian, and accessed atomically.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace outboard {

enum QuotaMode : uint64_t {
  kModeOpen = 0,        // nothing is held
  kModeDeviceTime = 1,  // a quota token is a nanosecond of the device's time
  kModeBlocks = 2,      // a quota token is a block of a launched grid
  kModeHostTime = 3,    // a quota token is a nanosecond of wall time between launches
};

inline constexpr uint64_t kNoLimit = UINT64_MAX;

// Returns the mode in whose unit work is charged.
inline uint64_t unit_of(uint64_t mode) { return mode == kModeOpen ? kModeDeviceTime : mode; }

struct QuotaWords {
  using Word = std::atomic<uint64_t>;

  // Written by the monitor.
  Word magic;
  Word mode;
  Word limit;  // quota tokens given so far: work may start while charged + given_back < limit

  // A futex. Whoever changes what may open the gate increments it and wakes who waits.
  std::atomic<uint32_t> wake;
  uint32_t wake_padding;

  // Written by the executor.
  Word session;    // number of the session that is served; 0: none. Set after the words below are 0
  Word unit;       // the mode in whose unit `charged` is (kModeDeviceTime for kModeOpen); when that
                   // changes in the middle of a session, charged begins at 0 again
  Word counted;    // number of the session that the words below are of, also when it has left
  Word queued;     // 1: work that has quota tokens waits for another slot's turn to end; else 0
  Word charged;    // quota tokens used: as predicted when work starts, corrected when measured
  Word device_ns;  // measured time of the device, in nanoseconds
  Word blocks;     // blocks of launched grids
  Word launches;   // launches of kernels
  Word gate_waits;    // times that work which was ready had to wait for quota tokens
  Word gate_wait_ns;  // how long it waited, in nanoseconds
  Word held;          // launches that wait: for quota tokens, or behind others that do
  Word in_flight_ns;  // predicted cost of what has started and has not ended, in nanoseconds
  Word given_back;    // quota tokens that were charged, as predicted, and were not used: taken off
                      // `charged`, but nothing starts for them before whoever gives quota tokens
                      // has seen that
};
static_assert(offsetof(QuotaWords, wake) == 3 * 8 && offsetof(QuotaWords, session) == 4 * 8);
static_assert(offsetof(QuotaWords, charged) == 8 * 8 && offsetof(QuotaWords, given_back) == 16 * 8);
static_assert(QuotaWords::Word::is_always_lock_free);

// A mapping of the page. Any thread.
class QuotaPage {
 public:
  static constexpr size_t kBytes = 4096;
  static constexpr char kMagic[] = "OBTOKEN2";

  // Makes a page in a new memory file, with an open gate. Throws Error.
  static std::shared_ptr<QuotaPage> create();
  // Maps the page in a memory file, whose descriptor stays the caller's. Throws Error.
  static std::shared_ptr<QuotaPage> open(int fd);

  ~QuotaPage();
  QuotaPage(const QuotaPage &) = delete;
  QuotaPage &operator=(const QuotaPage &) = delete;

  QuotaWords &words() { return *words_; }
  // Returns the memory file of a page that `create` has made, which is closed with the page; -1 for
  // other pages.
  int fd() const { return fd_; }
  // Returns the same, which the caller closes from now on.
  int release_fd();

  // Increments the wake word and wakes all who wait, here and in other processes.
  void wake() { wake(*words_); }
  static void wake(QuotaWords &words);
  // Waits until the wake word is not `seen` any more, but for so long at most.
  void wait(uint32_t seen, std::chrono::nanoseconds most);

 private:
  QuotaPage(QuotaWords *words, int fd) : words_(words), fd_(fd) {}

  QuotaWords *const words_;
  int fd_;
};

}  // namespace outboard
