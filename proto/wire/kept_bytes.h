// The last bytes that one side has sent, in case the connection is cut and the other side has not
// received them all. A ring: what is older than KEPT_BYTES is gone, which is more than the two
// kernels of a connection hold between them of what its sender has let go of. Counts are of all
// bytes of the stream from its beginning. Not locked: its user has a lock of the way out.
#ifndef OUTBOARD_KEPT_BYTES_H
#define OUTBOARD_KEPT_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define KEPT_BYTES (64u << 20)

struct kept_bytes {
  uint8_t *ring;  // NULL: nothing is kept
  uint64_t sent;  // bytes of the stream; the last KEPT_BYTES of them are in the ring
};

// Pages that are never written cost no memory. 0 where there are no addresses left.
static inline int kept_begin(struct kept_bytes *kept) {
  void *ring = mmap(NULL, KEPT_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (ring == MAP_FAILED) return 0;
  kept->ring = (uint8_t *)ring;
  kept->sent = 0;
  return 1;
}

static inline void kept_end(struct kept_bytes *kept) {
  if (kept->ring) munmap(kept->ring, KEPT_BYTES);
  kept->ring = NULL;
}

// Keeps what was sent, or is to be sent when there is a connection again.
static inline void kept_add(struct kept_bytes *kept, const void *bytes, size_t size) {
  const uint8_t *from = (const uint8_t *)bytes;
  while (size) {
    const size_t at = (size_t)(kept->sent % KEPT_BYTES);
    const size_t run = size < KEPT_BYTES - at ? size : KEPT_BYTES - at;
    memcpy(kept->ring + at, from, run);
    from += run;
    size -= run;
    kept->sent += run;
  }
}

// Whether the other side, which has received so many bytes, can be sent all others.
static inline int kept_reaches(const struct kept_bytes *kept, uint64_t received) {
  return received <= kept->sent && kept->sent - received <= KEPT_BYTES;
}

// Returns the bytes from count `from` on that lie in a row, and how many. 0: there are no more.
static inline size_t kept_run(const struct kept_bytes *kept, uint64_t from, const uint8_t **run) {
  const size_t at = (size_t)(from % KEPT_BYTES), left = (size_t)(kept->sent - from);
  *run = kept->ring + at;
  return left < KEPT_BYTES - at ? left : KEPT_BYTES - at;
}

#endif
