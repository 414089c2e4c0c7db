#include "trace_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEADER_BYTES 4096u
#define STRINGS_LEAST (64ull << 10)
#define STRINGS_MOST (4ull << 20)

uint64_t trace_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// As all of ours in a program's process lie (driver-abi/src/abi_descriptor.h, which this does not
// know): above 2, also where these are closed.
static int descriptor_above(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return above;
}

static void read_line(const char *path, char *line, size_t size) {
  int fd = descriptor_above(open(path, O_RDONLY | O_CLOEXEC));
  ssize_t got = fd < 0 ? 0 : read(fd, line, size - 1);
  if (fd >= 0) close(fd);
  line[got > 0 ? got : 0] = 0;
  line[strcspn(line, "\n")] = 0;
}

// The machine's start, and the time namespace: who shares both has the same clock.
static void name_clock(struct trace_header *header) {
  char boot[40], space[24];
  read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  ssize_t length = readlink("/proc/self/ns/time", space, sizeof space - 1);
  space[length > 0 ? length : 0] = 0;
  if (*boot) snprintf(header->clock, sizeof header->clock, "%s %s", boot, space);
}

static void name_process(struct trace_header *header) {
  header->process = (uint64_t)getpid();
  gethostname(header->host, sizeof header->host - 1);
  read_line("/proc/self/comm", header->program, sizeof header->program);
}

static void read_clocks(struct trace_header *header) {
  struct timespec real;
  uint64_t before = trace_now();
  clock_gettime(CLOCK_REALTIME, &real);
  header->monotonic = before / 2 + trace_now() / 2;
  header->realtime = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
}

// A disk that is full is found to be now, and gets back what was taken of it.
static int reserve(int fd, uint64_t size) {
  int error = posix_fallocate(fd, 0, (off_t)size);
  if (error && ftruncate(fd, 0) != 0) return errno;
  return error;
}

// A file of `size` bytes, empty and locked, in `fd`.
static int open_file(const char *path, uint64_t size, int *fd) {
  *fd = descriptor_above(open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (*fd < 0) return errno;
  struct stat status;
  int error = 0;
  if (fstat(*fd, &status) != 0)
    error = errno;
  else if (!S_ISREG(status.st_mode))
    error = EINVAL;
  else if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
    error = errno == EWOULDBLOCK ? EBUSY : errno;
  else if (ftruncate(*fd, 0) != 0)
    error = errno;
  else
    error = reserve(*fd, size);
  if (error) close(*fd);
  return error;
}

int trace_ring_open(struct trace_ring *ring, const char *path, uint64_t size,
                    enum trace_role role) {
  if (size < TRACE_BYTES_LEAST) size = TRACE_BYTES_LEAST;
  if (size > TRACE_BYTES_MOST) size = TRACE_BYTES_MOST;
  uint64_t records = TRACE_BYTES_LEAST / sizeof(struct trace_record);
  while (records * 2 * sizeof(struct trace_record) <= size) records *= 2;
  uint64_t strings = records * sizeof(struct trace_record) / 16;
  if (strings < STRINGS_LEAST) strings = STRINGS_LEAST;
  if (strings > STRINGS_MOST) strings = STRINGS_MOST;
  size = HEADER_BYTES + strings + records * sizeof(struct trace_record);

  int fd;
  int error = open_file(path, size, &fd);
  if (error) return error;
  void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    error = errno;
    close(fd);
    return error;
  }
  struct trace_header *header = mapped;
  header->role = role;
  header->strings_at = HEADER_BYTES;
  header->strings_size = strings;
  header->records_at = HEADER_BYTES + strings;
  header->record_count = records;
  header->record_size = sizeof(struct trace_record);
  name_clock(header);
  name_process(header);
  read_clocks(header);
  header->version = TRACE_VERSION;
  __atomic_store_n(&header->magic, TRACE_MAGIC, __ATOMIC_RELEASE);

  unsigned char *bytes = mapped;
  *ring = (struct trace_ring){
      .header = header,
      .records = (struct trace_record *)(void *)(bytes + header->records_at),
      .strings = bytes + header->strings_at,
      .mask = records - 1,
      .size = size,
      .names = 0,
      .fd = fd,
  };
  return 0;
}

void trace_ring_close(struct trace_ring *ring) {
  if (!ring->header) return;
  munmap(ring->header, ring->size);
  close(ring->fd);
  ring->header = NULL;
}

uint32_t trace_ring_string(struct trace_ring *ring, const char *text, uint64_t length) {
  struct trace_header *header = ring->header;
  uint64_t used = header->strings_used;
  if (length > UINT32_MAX - 8 || header->strings_size - used < 4 ||
      header->strings_size - used - 4 < ((length + 3) & ~(uint64_t)3)) {
    header->strings_lost++;
    return TRACE_NO_NAME;
  }
  uint32_t size = (uint32_t)length;
  memcpy(ring->strings + used, &size, 4);
  memcpy(ring->strings + used + 4, text, length);
  __atomic_store_n(&header->strings_used, used + 4 + ((length + 3) & ~(uint64_t)3),
                   __ATOMIC_RELEASE);
  return ++ring->names;
}
