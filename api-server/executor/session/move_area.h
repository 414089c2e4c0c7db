// Pinned memory through which a session's memory goes to another process (docs/moving.md): what the
// other process shares with this one (copies/region.h), or two pieces of this one's own, which are
// sent. One thread's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/driver.h"

namespace outboard {

class MoveArea {
 public:
  // Of the first slots of a region of `size` bytes, whose descriptor stays the caller's. Null when
  // it is not what is said of it, or the driver cannot copy to it by itself.
  static std::unique_ptr<MoveArea> shared(const Driver &driver, int descriptor, uint64_t size,
                                          uint64_t slot, unsigned slots);
  // Null: there is no pinned memory.
  static std::unique_ptr<MoveArea> own(const Driver &driver);
  ~MoveArea();
  MoveArea(const MoveArea &) = delete;

  bool is_shared() const { return mapped_ != 0; }
  unsigned pieces() const { return static_cast<unsigned>(read_.size()); }
  uint64_t piece_size() const { return piece_; }
  // Begins to read up to piece_size() bytes into the piece of that number.
  bool fetch(unsigned piece, uint64_t address, uint64_t size);
  // Waits for them. Null: they cannot be read. Of shared memory, the other process may change them
  // at any time.
  const uint8_t *wait(unsigned piece);

 private:
  explicit MoveArea(const Driver &driver) : driver_(driver) {}
  bool prepare(uint64_t piece, unsigned pieces);

  const Driver &driver_;
  void *bytes_ = nullptr;
  size_t mapped_ = 0;  // bytes that are shared; 0: they are the driver's
  bool registered_ = false;
  uint64_t piece_ = 0;
  CUstream stream_ = nullptr;
  std::vector<CUevent> read_;  // of each piece
};

}  // namespace outboard
