// Included before every source: functions that glibc has moved or renamed since 2.17 are taken from
// where they were, so that a library that was built on a new system loads on an old one. (New
// glibc keeps the old names.) A test reads the versions of what the library needs.
#ifndef OUTBOARD_OLD_GLIBC_H
#define OUTBOARD_OLD_GLIBC_H

#include <sys/stat.h>

#ifdef __GLIBC__
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define OLD_STAT 1
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define OLD_STAT 0
#endif
#endif

#ifdef OLDEST
#define FROM_OLDEST(name) __asm__(".symver " #name "," #name "@" OLDEST)
// In libpthread until 2.34.
FROM_OLDEST(pthread_create);
FROM_OLDEST(pthread_detach);
FROM_OLDEST(pthread_once);
FROM_OLDEST(pthread_sigmask);
FROM_OLDEST(pthread_key_create);
FROM_OLDEST(pthread_setspecific);
FROM_OLDEST(dlsym);
FROM_OLDEST(dlopen);
// Until 2.33 in every program that calls it, and this in glibc.
FROM_OLDEST(__fxstat);
int __fxstat(int version, int fd, struct stat *status);
#define fstat(fd, status) __fxstat(OLD_STAT, fd, status)
#endif

#endif
