// File descriptors of ours in the program's process. A program may have started with 0, 1 or 2
// closed, as daemons do, and what a library opens then lands there: the program's printf would go
// into our protocol or into device memory. So all that is ours lies above them.
#ifndef ABI_DESCRIPTOR_H
#define ABI_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define ABI_DESCRIPTOR_LEAST 3  // behind those of standard input, output and error

// `fd` itself where it lies above 2. Otherwise a duplicate of it that does, which a program that is
// executed does not get; `fd` is closed then. Takes what open(2) and its like return: below 0 it is
// given back, with errno as it is. -1 with errno, and `fd` closed, where no descriptor is left.
static inline int descriptor_above(int fd) {
  if (fd < 0 || fd >= ABI_DESCRIPTOR_LEAST) return fd;
  const int above = fcntl(fd, F_DUPFD_CLOEXEC, ABI_DESCRIPTOR_LEAST);
  const int error = errno;
  close(fd);
  errno = error;
  return above;
}

// A file as fopen(3) opens it for `mode` "r" or "w", on a descriptor above 2 that programs which
// are executed do not get. NULL with errno where it cannot be opened.
static inline FILE *stream_above(const char *path, const char *mode) {
  const int flags = *mode == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
  const int fd = descriptor_above(open(path, flags | O_CLOEXEC, 0666));
  FILE *stream = fd < 0 ? NULL : fdopen(fd, mode);
  const int error = errno;
  if (!stream && fd >= 0) close(fd);
  errno = error;
  return stream;
}

#endif
