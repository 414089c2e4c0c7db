// Asking the kernel whether pages can be read or written: it is asked to make them present
// (madvise), and refuses where they cannot be. Linux can since 5.14.
#ifndef OUTBOARD_POPULATE_H
#define OUTBOARD_POPULATE_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

// Whether the kernel can be asked. Older ones refuse always, also for pages that can be written.
static inline _Bool kernel_populates(void) {
  static uint8_t room[2 << 16];
  const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t page = ((uintptr_t)room + size - 1) & ~(size - 1);
  return !madvise((void *)page, size, MADV_POPULATE_WRITE);
}

#endif
