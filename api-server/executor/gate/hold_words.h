// Words in pinned memory by which streams are held (holds.h): for each, one word says how many
// holds the stream has come to, which the stream writes itself, and the other how many are
// released. Both only grow while a session lasts. They belong to the device and go from session to
// session. Kernels can write them, as all pinned memory: that ends the session
// (Meter::look_at_held).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/driver.h"

namespace outboard {

class HoldWords {
 public:
  struct Words {
    uint32_t reached;
    uint32_t released;
  };

  // Throws Error when the driver has no memory for them.
  explicit HoldWords(const Driver &driver);
  ~HoldWords();
  HoldWords(const HoldWords &) = delete;
  HoldWords &operator=(const HoldWords &) = delete;

  Words &at(size_t index) { return words_[index]; }
  // Overwrites them all, as kernels can reach them like other pinned memory. No stream is held.
  void scrub();

  // More than a session may have streams at a time.
  static constexpr size_t kMost = 8192;

 private:
  const Driver &driver_;
  Words *words_ = nullptr;
};

}  // namespace outboard
