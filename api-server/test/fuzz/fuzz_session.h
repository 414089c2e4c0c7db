// A session of the executor on the fake driver that is given whatever bytes an input holds.
#pragma once

#include <chrono>
#include <cstdint>

#include "session/session.h"

// Tokens cannot be known beforehand. Where the first word of one in an input is one of these, it is
// put in: what another process of the same program shares and lends.
enum StandIn : uint64_t {
  kStandInMemory = 0x6d656d6f7279'0000,
  kStandInEvent = 0x6576656e74'0000,
  kStandInPeer = 0x7065657200'0000,
};

// What the other process lends, from this granule of the window on, of so many granules each: loan
// 1 is of 1 granule, loan 2 of 2, ...
inline constexpr uint64_t kLentGranule = 64;
inline constexpr uint64_t kLoans = 3;

// The input is the stream of bytes behind the Welcome. The session must end, by itself once the
// input does, and leave nothing behind: anything else ends this process. What answers the session
// is sent when that has asked, or after `patience`.
outboard::SessionEnd serve_input(
    const uint8_t *data, size_t size,
    std::chrono::milliseconds patience = std::chrono::milliseconds(20));

// The image that the session is told to expect, at place 0.
extern const char *const kExpectedText;
