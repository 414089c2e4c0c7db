// What time it is. Durations are measured by a clock that nobody can set.
#ifndef OUTBOARD_CLOCK_H
#define OUTBOARD_CLOCK_H

#include <stdint.h>
#include <time.h>

// Nanoseconds since some moment in the past, the same for all processes of the machine.
static inline uint64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// The same in milliseconds.
static inline int64_t clock_ms(void) { return (int64_t)(clock_ns() / 1000000u); }

// The time of day, which people can set.
static inline struct timespec clock_of_day(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

#endif
