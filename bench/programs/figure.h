// What the benchmark programs share: the clock, errors that end the program, and figures as lines
// of JSON on stdout, one for each repetition and side.
#ifndef BENCH_FIGURE_H
#define BENCH_FIGURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

#define FAIL(...)                           \
  do {                                      \
    fprintf(stderr, "bench: " __VA_ARGS__); \
    fputc('\n', stderr);                    \
    exit(1);                                \
  } while (0)

// `side` is "cuda" for what goes through the driver, "raw" for its counterpart.
static inline void figure(const char *name, const char *side, double value) {
  printf("{\"figure\": \"%s\", \"side\": \"%s\", \"value\": %.6g}\n", name, side, value);
  fflush(stdout);
}

#endif
