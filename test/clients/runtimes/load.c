// Finds the functions of a runtime.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static void *find(void *library, const char *name, const char *ending) {
  char whole[100];
  snprintf(whole, sizeof whole, "%s%s", name, ending);
  void *function = dlsym(library, whole);
  if (function) return function;
  fprintf(stderr, "%s\n", dlerror());
  exit(2);
}

void runtime_load(struct runtime *runtime, const char *path, int per_thread) {
  runtime->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!runtime->library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
#define FIND(result, function, arguments) \
  *(void **)&runtime->function = find(runtime->library, #function, "");
#define FIND_STREAM(result, function, ending, arguments) \
  *(void **)&runtime->function = find(runtime->library, #function, per_thread ? #ending : "");
  RUNTIME_FUNCTIONS(FIND, FIND_STREAM)
}

#ifdef LINKED
#define DECLARE(result, function, arguments) result function arguments;
#define DECLARE_STREAM(result, function, ending, arguments) \
  result function arguments;                                \
  result function##ending arguments;
RUNTIME_FUNCTIONS(DECLARE, DECLARE_STREAM)

int runtime_linked(struct runtime *runtime, int per_thread) {
  runtime->library = NULL;
#define TAKE(result, function, arguments) runtime->function = function;
#define TAKE_STREAM(result, function, ending, arguments) \
  runtime->function = per_thread ? function##ending : function;
  RUNTIME_FUNCTIONS(TAKE, TAKE_STREAM)
  return 1;
}
#else
int runtime_linked(struct runtime *runtime, int per_thread) {
  (void)runtime, (void)per_thread;
  return 0;
}
#endif
