// Which pages of host memory differ from what the guest has of them.
#pragma once

#include <cstdint>
#include <span>

#include "session/answers.h"
#include "wire.h"

namespace outboard {

class Differences {
 public:
  // Whether [address, address + length) are pages that a guest may ask about, with so many hashes
  // or none.
  static bool can_tell(uint64_t address, uint64_t length, std::span<const uint8_t> hashes);
  // For these, which can_tell has allowed. Without hashes all pages differ.
  Differences(uint64_t address, uint64_t length, std::span<const uint8_t> hashes);

  bool any(const uint8_t *data) const;
  // Sends what differs of `data`, and answers PagesChanged.
  void tell(Answers &answers, uint64_t request, const uint8_t *data, bool settled) const;

 private:
  template <class Visit>
  void each(const uint8_t *data, Visit visit) const;

  const uint64_t address_, length_;
  const bool all_;
  uint64_t known_[WIRE_PAGES_MAX];
};

}  // namespace outboard
