// The figures of bench-measure.
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>

struct plan {
  const char *name;
  int repetitions;
  int count;         // of calls or copies in one repetition
  size_t size;       // of a copy
  const char *port;  // of the raw peer; NULL: the driver's side alone
};

void measure_launch(const struct plan *plan);
void measure_call(const struct plan *plan);
void measure_synchronise(const struct plan *plan);
void measure_read(const struct plan *plan);
void measure_small_read(const struct plan *plan);
void measure_small_upload(const struct plan *plan);
void measure_threads(const struct plan *plan);
void measure_upload(const struct plan *plan);
void measure_download(const struct plan *plan);
void measure_only_upload(const struct plan *plan);
void measure_pinned_upload(const struct plan *plan);
void measure_pinned_download(const struct plan *plan);
void measure_attach(const struct plan *plan);

#endif
