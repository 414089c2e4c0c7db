// A list of what is to be sent, of which the front goes piece by piece.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace outboard {

// Makes `parts` and `count` what is left when so many bytes have gone; nothing empty is in front
// then.
inline void advance(iovec *&parts, int &count, size_t gone) {
  while (count > 0 && gone >= parts->iov_len) {
    gone -= parts->iov_len;
    ++parts;
    --count;
  }
  if (count == 0) return;
  parts->iov_base = static_cast<uint8_t *>(parts->iov_base) + gone;
  parts->iov_len -= gone;
}

}  // namespace outboard
