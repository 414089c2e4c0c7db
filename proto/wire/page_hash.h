// What guest and server compare of a page in place of its bytes. Not against those who mean harm:
// both pages are of the same session.
#ifndef OUTBOARD_PAGE_HASH_H
#define OUTBOARD_PAGE_HASH_H

#include <stdint.h>
#include <string.h>

static inline uint64_t wire_hash_mix(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Of `size` bytes, up to a page.
static inline uint64_t wire_page_hash(const void *page, uint64_t size) {
  const unsigned char *at = (const unsigned char *)page;
  uint64_t one = 0x9e3779b97f4a7c15ull, two = 0xd1b54a32d192ed03ull ^ size;
  uint64_t words[4];
  while (size) {
    uint64_t part = size < sizeof words ? size : sizeof words;
    if (part < sizeof words) memset(words, 0, sizeof words);
    memcpy(words, at, part);
    one = wire_hash_mix(words[0] ^ 0xa0761d6478bd642full, words[1] ^ one);
    two = wire_hash_mix(words[2] ^ 0xe7037ed1a0b428dbull, words[3] ^ two);
    at += part;
    size -= part;
  }
  return wire_hash_mix(one ^ 0x8ebc6af09c88c6e3ull, two);
}

#endif
