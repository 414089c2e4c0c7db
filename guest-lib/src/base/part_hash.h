// The hash by which parts of uploads and images are known: BLAKE2b-256, little-endian words of the
// digest.
#ifndef OUTBOARD_PART_HASH_H
#define OUTBOARD_PART_HASH_H

#include <stddef.h>
#include <stdint.h>

struct part_hash {
  uint64_t words[4];
};

// Sets *hash to the hash of `size` bytes.
void part_hash(const void *bytes, size_t size, struct part_hash *hash);

#endif
