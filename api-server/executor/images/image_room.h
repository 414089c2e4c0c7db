// How much of the host's memory the images of a session's modules take. An image counts from before
// it is looked for until its module is unloaded. Images of modules that are loaded before the
// program asks have what the others leave, and take nothing from what it may load itself.
//
// Any thread.
#pragma once

#include <cstdint>
#include <mutex>

namespace outboard {

class ImageRoom {
 public:
  explicit ImageRoom(uint64_t most) : most_(most) {}
  // Returns how many bytes images may take.
  uint64_t most() const { return most_; }

  // Takes room for an image; `expected`: its module is loaded before the program asks. False, with
  // nothing taken, when there is not so much.
  bool take(uint64_t bytes, bool expected) {
    std::lock_guard lock(mutex_);
    const uint64_t there = expected ? own_ + expected_ : own_;
    if (bytes > most_ || there > most_ - bytes) return false;
    (expected ? expected_ : own_) += bytes;
    return true;
  }
  // Gives back room. False when that is more than was taken; then all of it is free.
  [[nodiscard]] bool give_back(uint64_t bytes, bool expected) {
    std::lock_guard lock(mutex_);
    return lower(expected ? &expected_ : &own_, bytes);
  }
  // Says that the program has taken an expected module. It has the module by then, so it counts as
  // one that it has loaded itself, even where there is no room. False when expected modules do not
  // take so much.
  [[nodiscard]] bool claim(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    if (bytes > expected_) return false;
    expected_ -= bytes;
    own_ += bytes;
    return true;
  }
  // Says that all modules are unloaded.
  void clear() {
    std::lock_guard lock(mutex_);
    own_ = expected_ = 0;
  }

  // Room for an image until it turns out that there is a module of it.
  class Taken {
   public:
    Taken(ImageRoom &room, uint64_t bytes, bool expected)
        : room_(room), bytes_(bytes), expected_(expected), there_(room.take(bytes, expected)) {}
    // Where all has been cleared meanwhile, there is nothing left to give back.
    ~Taken() {
      if (there_) (void)room_.give_back(bytes_, expected_);
    }
    Taken(const Taken &) = delete;
    Taken &operator=(const Taken &) = delete;
    // Whether there was room, and this still has it.
    bool there() const { return there_; }
    // Leaves the room to the module, whose unloading gives it back.
    void keep() { there_ = false; }

   private:
    ImageRoom &room_;
    const uint64_t bytes_;
    const bool expected_;
    bool there_;
  };

 private:
  // A sum that went below nothing would be larger than any room, for the rest of the session.
  static bool lower(uint64_t *sum, uint64_t bytes) {
    const bool there = bytes <= *sum;
    *sum -= there ? bytes : *sum;
    return there;
  }

  const uint64_t most_;
  std::mutex mutex_;  // innermost
  uint64_t own_ = 0;
  uint64_t expected_ = 0;  // of modules that nobody has taken
};

}  // namespace outboard
