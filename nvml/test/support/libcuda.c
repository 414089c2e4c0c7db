// A libcuda.so.1 that has a session, or has none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/companion.h"

CUresult cuGetExportTable(const void **table, const CUuuid *id);
void test_session(uint64_t number, uint64_t total, uint64_t free_bytes);

static struct companion_session current;
static struct companion_device known;

static unsigned devices(struct companion_device *out, unsigned room) {
  if (!current.session) return 0;
  if (room) *out = known;
  if (room) out->session = current;
  return 1;
}

static _Bool session(struct companion_session *out) {
  *out = current;
  return current.session != 0;
}

// Number 0: none.
void test_session(uint64_t number, uint64_t total, uint64_t free_bytes) {
  current = (struct companion_session){number, total, free_bytes};
  // Where the tests' monitor is: HOST:PORT.
  const char *name = getenv("OUTBOARD_SERVER"), *colon = name ? strrchr(name, ':') : NULL;
  if (!colon) return;
  snprintf(known.server.host, sizeof known.server.host, "%.*s", (int)(colon - name), name);
  snprintf(known.server.port, sizeof known.server.port, "%s", colon + 1);
}

CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  static const struct companion_table ours = {
      .size = sizeof ours, .session = session, .devices = devices};
  const CUuuid name = COMPANION_TABLE;
  if (memcmp(id, &name, sizeof name) != 0) return CUDA_ERROR_NOT_FOUND;
  *table = &ours;
  return CUDA_SUCCESS;
}
