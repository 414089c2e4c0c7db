// bench-measure: measures one figure, its two sides in turn, so that what the machine does
// meanwhile hits both. Natively there is one side only.
//
//   bench-measure FIGURE REPETITIONS COUNT [PORT OF bench-peer]
#include "measure.h"

#include <string.h>

#include "figure.h"

#define MIB ((size_t)1 << 20)

static const struct {
  const char *name;
  void (*measure)(const struct plan *plan);
  size_t size;
} figures[] = {
    {"launch", measure_launch, 0},
    {"call", measure_call, 0},
    {"synchronise", measure_synchronise, 0},
    {"read", measure_read, 0},
    {"small-read", measure_small_read, 0},
    {"small-upload", measure_small_upload, 0},
    {"threads", measure_threads, 0},
    {"upload-1", measure_upload, MIB},
    {"upload-16", measure_upload, 16 * MIB},
    {"upload-64", measure_upload, 64 * MIB},
    {"upload-256", measure_upload, 256 * MIB},
    {"only-upload-64", measure_only_upload, 64 * MIB},
    {"upload-64-pinned", measure_pinned_upload, 64 * MIB},
    {"download-1", measure_download, MIB},
    {"download-16", measure_download, 16 * MIB},
    {"download-64", measure_download, 64 * MIB},
    {"download-256", measure_download, 256 * MIB},
    {"download-64-pinned", measure_pinned_download, 64 * MIB},
    {"attach", measure_attach, 0},
};

int main(int argc, char **argv) {
  if (argc < 4) FAIL("usage: bench-measure FIGURE REPETITIONS COUNT [PORT]");
  struct plan plan = {.name = argv[1],
                      .repetitions = atoi(argv[2]),
                      .count = atoi(argv[3]),
                      .port = argc > 4 ? argv[4] : NULL};
  if (plan.repetitions < 1 || plan.count < 1) FAIL("repetitions and count must be at least 1");
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    if (strcmp(figures[i].name, plan.name)) continue;
    plan.size = figures[i].size;
    figures[i].measure(&plan);
    return 0;
  }
  FAIL("there is no figure called %s", plan.name);
}
