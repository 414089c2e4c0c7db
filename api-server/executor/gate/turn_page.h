// The page of memory through which the slots of a GPU take turns. It lies in a memory file that the
// monitor makes, and the API server processes of all slots of a GPU inherit a descriptor of it.
//
// All of them may write there. What one that goes wrong can do to the others by that is to make
// them wait for kMostWaitNs in front of each turn: whoever has waited that long takes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace outboard {

struct TurnWords {
  using Word = std::atomic<uint64_t>;
  static constexpr unsigned kMostSlots = 64;

  Word magic;
  std::atomic<uint32_t> owner;  // whose turn it is: 1 + its slot; 0: nobody's
  uint32_t owner_padding;
  Word since;  // when it was given to the owner, in nanoseconds of CLOCK_MONOTONIC
  Word reserved;
  struct Slot {
    Word waits_since;            // by the same clock; 0: it does not wait
    std::atomic<uint32_t> wake;  // a futex, incremented when the turn is given to the slot
    uint32_t wake_padding;
  } slots[kMostSlots];
};
static_assert(TurnWords::Word::is_always_lock_free);

// A mapping of the page. Any thread.
class TurnPage {
 public:
  static constexpr size_t kBytes = 4096;
  static constexpr char kMagic[] = "OBTURNS1";
  // How long a slot waits for one that has the turn.
  static constexpr int64_t kMostWaitNs = 1'000'000'000;

  // Makes a page in a new memory file, on which it is nobody's turn. Throws Error.
  static std::shared_ptr<TurnPage> create();
  // Maps the page in a memory file, whose descriptor stays the caller's. Throws Error.
  static std::shared_ptr<TurnPage> open(int fd);

  ~TurnPage();
  TurnPage(const TurnPage &) = delete;
  TurnPage &operator=(const TurnPage &) = delete;

  TurnWords &words() { return *words_; }
  // Returns the memory file of a page that `create` has made, which is closed with the page; -1 for
  // other pages.
  int fd() const { return fd_; }
  // Returns the same, which the caller closes from now on.
  int release_fd();

  // ---- for slots below kMostSlots --------------------------------------------------------------

  bool is_of(unsigned slot) const { return words_->owner.load() == slot + 1; }
  // Takes the turn where it is nobody's. Returns whether it is the slot's then.
  bool take(unsigned slot);
  // The same; and where it is another slot's, waits for it from now on: `wake` of the slot tells
  // when it comes. An owner that both of them have waited for too long loses it.
  bool take_or_wait(unsigned slot);
  void wait_no_more(unsigned slot) { words_->slots[slot].waits_since.store(0); }
  // Whether another slot waits.
  bool is_waited_for(unsigned slot) const { return longest_waiting(slot) != kMostSlots; }
  // Gives the slot's turn to whoever has waited longest.
  void pass_on(unsigned slot);
  // The slot's process has ended: it waits for nothing, and it is not its turn.
  static void leave(TurnWords &words, unsigned slot);

  // Waits until `wake` of the slot is not `seen` any more.
  void wait(unsigned slot, uint32_t seen);
  // Lets that wait end.
  void wake(unsigned slot) { wake(*words_, slot); }

 private:
  static constexpr unsigned kMostSlots = TurnWords::kMostSlots;

  TurnPage(TurnWords *words, int fd) : words_(words), fd_(fd) {}
  static unsigned longest_waiting(const TurnWords &words, unsigned except);
  unsigned longest_waiting(unsigned except) const { return longest_waiting(*words_, except); }
  static void pass_on(TurnWords &words, unsigned slot);
  static void wake(TurnWords &words, unsigned slot);

  TurnWords *const words_;
  int fd_;
};

}  // namespace outboard
