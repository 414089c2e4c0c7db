// A library of ours by the name without a version, as some programs open it: it is the same library
// as by the other name, not a second one with a state of its own. Arguments: the library by its
// versioned name, a function of it, and which name is opened first; or, `loaded`, that the program
// has been started with the library, as by LD_PRELOAD, and finds the other name by LD_LIBRARY_PATH;
// or, `needed`, that a library which needs the versioned name comes when the other one is there.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *opened(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  return library;
}

static void *found(const char *name, const char *function) {
  void *library = opened(name);
  void *at = library ? dlsym(library, function) : NULL;
  if (library && !at) fprintf(stderr, "%s: no %s\n", name, function);
  return at;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const char *versioned = argv[1], *function = argv[2], *way = argv[3];
  char plain[PATH_MAX], folder[PATH_MAX];
  snprintf(plain, sizeof plain, "%s", versioned);
  plain[strlen(plain) - strlen(".1")] = 0;
  snprintf(folder, sizeof folder, "%s", plain);
  *strrchr(folder, '/') = 0;
  const char *first = versioned, *second = plain;
  if (strcmp(way, "first") == 0) {
    first = plain;
    second = versioned;
  }
  if (strcmp(way, "loaded") == 0) {
    if (!getenv("LD_LIBRARY_PATH") || strcmp(getenv("LD_LIBRARY_PATH"), folder) != 0) {
      setenv("LD_LIBRARY_PATH", folder, 1);
      setenv("LD_PRELOAD", versioned, 1);
      execv("/proc/self/exe", argv);
      return 2;
    }
    second = strrchr(plain, '/') + 1;
  }
  if (strcmp(way, "needed") == 0) {
    void *at = found(plain, function), *(*meant)(void);
    *(void **)&meant = found(argv[4], "meant");
    return !at || !meant || meant() != at;
  }
  void *one = found(first, function), *other = found(second, function);
  if (!one || !other) return 1;
  if (one != other) {
    fprintf(stderr, "%s and %s are two libraries\n", first, second);
    return 1;
  }
  return 0;
}
