// FNV-1a over bytes: two runs that print the same checksum computed the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

inline uint64_t checksum(const void *bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ static_cast<const unsigned char *>(bytes)[i]) * 0x100000001b3ull;
  }
  return hash;
}
