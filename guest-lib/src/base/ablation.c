#include "base/ablation.h"

#include <string.h>

#include "setup/environment.h"
#include "setup/log.h"

unsigned ablation;

static const struct {
  const char *name;
  unsigned bit;
} known[] = {
    {"batching", ABLATE_BATCHING}, {"local", ABLATE_LOCAL},
    {"handles", ABLATE_HANDLES},   {"deferred", ABLATE_DEFERRED},
    {"modules", ABLATE_MODULES},   {"region", ABLATE_REGION},
    {"posted", ABLATE_POSTED},     {"descriptors", ABLATE_DESCRIPTORS},
};

// The bits of a list of names; `unknown` is the first that is none.
static unsigned parse(const char *list, const char **unknown, size_t *length) {
  unsigned bits = 0;
  *unknown = NULL;
  for (const char *at = list; *at;) {
    size_t size = strcspn(at, ",");
    unsigned bit = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (strlen(known[i].name) == size && memcmp(known[i].name, at, size) == 0) bit = known[i].bit;
    if (!bit && size && !*unknown) {
      *unknown = at;
      *length = size;
    }
    bits |= bit;
    at += size + (at[size] == ',');
  }
  return bits;
}

_Bool ablation_decide(void) {
  const char *list = environment("OUTBOARD_ABLATION");
  const char *unknown;
  size_t length;
  ablation = list ? parse(list, &unknown, &length) : 0;
  return ablation != 0;
}

void ablation_report(void) {
  const char *list = environment("OUTBOARD_ABLATION");
  const char *unknown = NULL;
  size_t length = 0;
  if (list) parse(list, &unknown, &length);
  if (unknown)
    log_error(
        "OUTBOARD_ABLATION: \"%.*s\" is not known: expected batching, local, handles, deferred, "
        "modules, region, posted or descriptors",
        (int)length, unknown);
}
