// File descriptors of ours in the program's process. A program may have started with 0, 1 or 2
// closed, as daemons do, and what a library opens then lands there: the program's printf would go
// into our protocol or into device memory. So all that is ours lies above them.
#ifndef ABI_DESCRIPTOR_H
#define ABI_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
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

// What a descriptor of ours was made for, to know it again: a program may close it, as daemons
// close all they do not know, and open something else under its number.
struct descriptor_mark {
  dev_t device;
  ino_t inode;
};

// Marks what the descriptor is now; one that is none is nothing.
static inline struct descriptor_mark descriptor_mark_of(int fd) {
  struct descriptor_mark mark = {0, 0};
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) return mark;
  mark.device = status.st_dev;
  mark.inode = status.st_ino;
  return mark;
}

// Whether it is that still. All eventfds are one.
static inline int descriptor_is(int fd, struct descriptor_mark mark) {
  const struct descriptor_mark now = descriptor_mark_of(fd);
  return now.inode != 0 && now.inode == mark.inode && now.device == mark.device;
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
