#include "setup/environment.h"

#include <stdlib.h>

const char *environment_or_empty(const char *variable) { return secure_getenv(variable); }

const char *environment(const char *variable) {
  const char *value = secure_getenv(variable);
  return value && *value ? value : NULL;
}
