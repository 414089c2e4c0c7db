// The page of memory through which the monitor says how much a slot's session may do, and reads
// what it has done. It lies in a memory file that the monitor makes and the API server process
// inherits as a descriptor, so nothing of it can be left behind.
//
// This is the layout; api-server/src/quota-page.ts has it for TypeScript. Words are 64 bits, little
// endian, and accessed atomically.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace outboard {

enum QuotaMode : uint64_t {
  kModeOpen = 0,        // nothing is held; everything is measured
  kModeDeviceTime = 1,  // a quota token is a nanosecond of the device's time
  kModeBlocks = 2,      // a quota token is a block of a launched grid
  kModeHostTime = 3,    // a quota token is a nanosecond of wall time between launches
};

inline constexpr uint64_t kNoLimit = UINT64_MAX;

struct QuotaWords {
  using Word = std::atomic<uint64_t>;

  // Written by the monitor.
  Word magic;
  Word mode;
  Word limit;  // work may start while charged < limit

  // Incremented by whoever changes what may open the gate, then woken (futex).
  std::atomic<uint32_t> wake;
  uint32_t wake_padding;

  // Written by the executor.
  Word session;  // being served; 0: none. Set after the words below were set back
  Word unit;     // the mode in whose unit `charged` is (kModeDeviceTime for kModeOpen); when that
                 // changes in the middle of a session, charged begins at 0 again
  Word counted;  // whose the words below are, also when it has left
  Word reserved;
  Word charged;       // of what has started: predicted cost, corrected once it is measured
  Word device_ns;     // measured
  Word blocks;        // launched
  Word launches;      //
  Word gate_waits;    // times that work which was ready had to wait for quota tokens
  Word gate_wait_ns;  //
  Word held;          // launches that have not started: for want of quota tokens, or in turn
  Word in_flight_ns;  // predicted cost of what has started and has not ended
};
static_assert(offsetof(QuotaWords, wake) == 3 * 8 && offsetof(QuotaWords, session) == 4 * 8);
static_assert(offsetof(QuotaWords, charged) == 8 * 8 &&
              offsetof(QuotaWords, in_flight_ns) == 15 * 8);
static_assert(QuotaWords::Word::is_always_lock_free);

class QuotaPage {
 public:
  static constexpr size_t kBytes = 4096;
  static constexpr char kMagic[] = "OBTOKEN1";

  // A new one, open, in a memory file. All of these throw Error.
  static std::shared_ptr<QuotaPage> create();
  // The one in the memory file; `fd` stays the caller's.
  static std::shared_ptr<QuotaPage> open(int fd);

  ~QuotaPage();
  QuotaPage(const QuotaPage &) = delete;
  QuotaPage &operator=(const QuotaPage &) = delete;

  QuotaWords &words() { return *words_; }
  // Of `create`: the memory file, closed with the page. Otherwise -1.
  int fd() const { return fd_; }
  // The caller closes it from now on.
  int release_fd();

  // Says that something has changed.
  void wake() { wake(*words_); }
  static void wake(QuotaWords &words);
  // Waits while the wake word is still `seen`, for a moment at most.
  void wait(uint32_t seen);

 private:
  QuotaPage(QuotaWords *words, int fd) : words_(words), fd_(fd) {}

  QuotaWords *const words_;
  int fd_;
};

}  // namespace outboard
