// Carries pages that host and device share without a call of the driver. A driver may let nobody
// start a copy while it loads code, and the load may wait for a stream that a function of the guest
// holds: which returns when its pages have been carried. So behind each such function a kernel of
// ours, a porter, is queued in a stream aside, before there is anything to carry: it waits for a
// word, and is let go on when the function has returned. Where pages are to be carried that nobody
// may ask the driver for, the porter whose turn it is begins before that, takes orders from pinned
// memory of the host, says there that they are done, and ends with a function's return. Else it
// finds at once that there is nothing left to do.
//
// The words are within reach of the guest's kernels, as all pinned memory is: what they say is only
// compared here, and a porter does nothing that those kernels could not do.
//
// Whoever reads the connection orders. Words only grow, and go round.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/driver.h"

namespace outboard {

class PagePorter {
 public:
  // Loads the kernel and lets it run once, so that nothing is loaded later. Null where the device
  // cannot run it: then pages wait for the driver. The context is current.
  static std::unique_ptr<PagePorter> open(const Driver &driver);
  ~PagePorter();
  PagePorter(const PagePorter &) = delete;
  PagePorter &operator=(const PagePorter &) = delete;

  // ---- for the leader --------------------------------------------------------------------------

  // Begins with a session. The one before it has ended, with all its threads.
  void begin();
  // Whom to tell for how many nanoseconds more a porter has been on the device: that passes no
  // gate. Called by whoever orders or releases, until rest().
  void on_ran(std::function<void(uint64_t)> ran) { ran_ = std::move(ran); }
  // Queues one more. False when there are as many as may be, or the driver refuses: then nothing is
  // to be released for it. `most` is how many operations a stream takes; 0: any number. Behind it
  // comes settled(), when its function is in its stream, or is never called. A driver that loads
  // code may keep the leader before that, and wait for the porter itself: then let_go() lets it
  // go, and settled() has another one stand by.
  bool stand_by(unsigned most);
  void settled(unsigned most, bool is_there);
  // Writes, when what `stream` has now is done, a word that has_landed() looks at. The driver's
  // result.
  CUresult mark(CUstream stream);
  // Gives back what the session has for this on the device, which is at rest, and leaves nothing of
  // it in the areas. To be called before another one begins. The driver's result.
  CUresult rest();

  // ---- for any thread --------------------------------------------------------------------------

  // A function that one stands by for has returned, or is never called.
  void release_one();
  // The session ends, and nobody is called any more.
  void release_all();

  // ---- for who reads the connection ------------------------------------------------------------

  // Whether all that was marked is there.
  bool has_landed() const;
  // `size` bytes go from one address to another, neither of which need be aligned. One is in area()
  // and the other the device's.
  struct Order {
    uint64_t from;
    uint64_t to;
    uint64_t size;
  };
  static constexpr size_t kMostOrders = 512;
  // Pinned memory for what is carried, which belongs to who orders; payloads may be padded there.
  static constexpr size_t kArea = 1 << 20;
  uint8_t *area(unsigned which = 0) {
    used_ = true;
    return areas_ + which * kAreaRoom;
  }
  static constexpr unsigned kAreas = 2;

  // For who reads in the place of a leader whom the driver keeps, again and again: lets go of the
  // one that stood by the last time, whose turn that returned, where its function is still not in
  // its stream and all others have returned. 0: none stands by.
  uint32_t let_go(uint32_t stood);

  // Carries out orders, at most kMostOrders, behind all that was marked. False when there is no
  // porter to do it, or none can begin: then nothing has happened, nor will.
  bool carry(std::span<const Order> orders);

 private:
  // In pinned memory. Of the words that one side writes the other waits for, those of the host lie
  // apart.
  struct Words {
    uint32_t go;        // how many may begin
    uint32_t released;  // how many may end
    uint32_t asked;     // the number of the last orders
    uint32_t count;     // how many these are
    uint32_t pad[12];
    uint32_t done;    // the number of those that were carried out last
    uint32_t begun;   // how many have begun
    uint32_t gone;    // how many have ended
    uint32_t landed;  // of marks
    uint32_t pad2[12];
    struct Place {
      uint64_t from, to, size, unit;
    } places[kMostOrders];
  };
  static constexpr size_t kAreaRoom = kArea + 64;

  explicit PagePorter(const Driver &driver) : driver_(driver) {}
  bool load();
  bool queue(uint32_t turn);
  bool cancel(uint32_t number, uint32_t turn);
  void release();
  void tell_time(bool goes_on);
  static uint32_t get(const uint32_t &word);
  static void put(uint32_t &word, uint32_t value);
  static void raise(uint32_t &word, uint32_t value);
  // Whether the first is as far as the second.
  static bool reaches(uint32_t word, uint32_t value) {
    return static_cast<int32_t>(word - value) >= 0;
  }

  const Driver &driver_;
  CUlibrary library_ = nullptr;
  CUfunction function_ = nullptr;
  CUstream stream_ = nullptr;
  Words *words_ = nullptr;
  uint8_t *areas_ = nullptr;
  uint32_t marks_ = 0;               // the leader's, and the reader's in its place
  std::atomic<uint32_t> queued_{0};  // porters so far
  std::atomic<bool> over_{false};    // all are released, also those to come
  std::function<void(uint64_t)> ran_;
  std::atomic<int64_t> since_{0};  // of one that was let begin, the time that is not told; 0: none
  std::atomic<bool> lost_{false};  // one has begun and not done what it was ordered
  bool used_ = false;              // the areas may hold a tenant's data

  std::mutex mutex_;       // innermost; of the next two, and `released` of the words
  uint32_t standing_ = 0;  // the turn of one whose function is not in its stream yet; 0: none
  uint32_t owed_ = 0;      // how many were released that no function has returned for
};

}  // namespace outboard
