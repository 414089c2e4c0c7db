#include "pages/backing.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "abi_signals.h"
#include "setup/log.h"

static uint64_t base, extent;
static char *second;  // view of the whole window
static int file = -1;
static dev_t file_device;
static ino_t file_number;

void backing_start(uint64_t window_base, uint64_t window_size) {
  base = window_base;
  extent = window_size;
}

// There may be none; and the program may have closed it, as programs do that close all, and opened
// another.
static _Bool still_open(void) {
  struct stat info;
  return fstat(file, &info) == 0 && info.st_dev == file_device && info.st_ino == file_number;
}

// A child has no use for it, and would keep what its parent had there.
static void in_child(void) {
  if (still_open()) close(file);
  file = -1;
}

// One file without a name, as long as the window and as empty as it is. There may be no descriptor
// for it, and the program's files may be limited to less (ulimit -f).
static void open_file(void) {
  struct stat info;
  struct abi_held_signal held;
  // By number: glibc has the function since 2.27.
  file = descriptor_above((int)syscall(SYS_memfd_create, "outboard", MFD_CLOEXEC));
  static _Bool watched;
  if (!watched) watched = !pthread_atfork(NULL, NULL, in_child);
  abi_signal_hold(&held, SIGXFSZ);
  if (file >= 0 && ftruncate(file, (off_t)extent) == 0 && fstat(file, &info) == 0) {
    file_device = info.st_dev;
    file_number = info.st_ino;
  } else {
    log_info("memory that host and device share has no file: %s", strerror(errno));
    if (file >= 0) close(file);
    file = -1;
  }
  abi_signal_release(&held);
}

static _Bool make(void) {
  if (second) return 1;
  open_file();
  const int flags = MAP_SHARED | MAP_NORESERVE | (file < 0 ? MAP_ANONYMOUS : 0);
  void *view = mmap(NULL, extent, PROT_READ | PROT_WRITE, flags, file, 0);
  if (view != MAP_FAILED) {
    madvise(view, extent, MADV_DONTFORK);
    madvise(view, extent, MADV_DONTDUMP);
    second = view;
    return 1;
  }
  log_error("no memory that host and device share: %s", strerror(errno));
  if (file >= 0) close(file);
  file = -1;
  return 0;
}

char *backing_open(uint64_t address, uint64_t size) {
  if (!make()) return NULL;
  void *wanted = (void *)(uintptr_t)address;
  char *view = second + (address - base);
  void *got = MAP_FAILED;
  if (still_open()) {
    got = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
               (off_t)(address - base));
  } else if (mremap(view, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, wanted) != MAP_FAILED) {
    got = wanted;  // of a shared mapping, nothing moved is a second view
  }
  if (got == MAP_FAILED) {
    log_error("%llu bytes that host and device share: %s", (unsigned long long)size,
              strerror(errno));
    return NULL;
  }
  // A child has none of it, as with the vendor's driver.
  madvise(wanted, size, MADV_DONTFORK);
  return view;
}

char *backing_view(uint64_t address) { return second + (address - base); }

void backing_close(uint64_t address, uint64_t size) {
  mmap((void *)(uintptr_t)address, size, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  madvise(second + (address - base), size, MADV_REMOVE);
}

char *backing_open_outside(uint64_t address, uint64_t size) {
  void *wanted = (void *)(uintptr_t)address;
  void *view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (view == MAP_FAILED) return NULL;
  // Holds the place first: the second view can only be put over something.
  void *held = mmap(wanted, size, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (held == wanted &&
      mremap(view, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, wanted) != MAP_FAILED &&
      mprotect(wanted, size, PROT_NONE) == 0) {
    madvise(wanted, size, MADV_DONTFORK);
    madvise(view, size, MADV_DONTFORK);
    return view;
  }
  log_error("the place of a managed variable, 0x%llx, is taken in this process",
            (unsigned long long)address);
  if (held != MAP_FAILED) munmap(held, size);
  munmap(view, size);
  return NULL;
}

void backing_close_outside(char *view, uint64_t address, uint64_t size) {
  munmap((void *)(uintptr_t)address, size);
  munmap(view, size);
}

_Bool backing_knows_data(void) { return still_open(); }

_Bool backing_data(uint64_t *begin, uint64_t *end) {
  off_t from = lseek(file, (off_t)(*begin - base), SEEK_DATA);
  if (from < 0 || (uint64_t)from >= *end - base) return 0;
  off_t to = lseek(file, from, SEEK_HOLE);
  *begin = base + (uint64_t)from;
  if (to > from && base + (uint64_t)to < *end) *end = base + (uint64_t)to;
  return 1;
}
