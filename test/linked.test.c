// A program that is linked with a library of ours by -lcuda or -lnvidia-ml and its folder, as with
// any other: it needs that library by its versioned name, and no more. Argument: the other library,
// which then is the same one, also for a library that was linked like this program.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void FUNCTION(void);

// As a library that is linked, too: what it means by the name.
void *meant(void);
void *meant(void) { return (void *)FUNCTION; }

#ifndef AS_LIBRARY
static int differs(const char *what, void *library, const char *name) {
  void *at = library ? dlsym(library, name) : NULL;
  if (at && !strcmp(name, "meant")) at = ((void *(*)(void))at)();
  if (at == (void *)FUNCTION) return 0;
  fprintf(stderr, "%s: %s\n", what, library ? "another library" : dlerror());
  return 1;
}

#define TEXT(name) #name
#define TEXT_OF(name) TEXT(name)

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  Dl_info info;
  if (!dladdr((void *)FUNCTION, &info) || !strstr(info.dli_fname, ".so.1")) {
    fprintf(stderr, "the program has it from %s\n", info.dli_fname);
    return 1;
  }
  return differs(argv[1], dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), TEXT_OF(FUNCTION)) ||
         differs(argv[2], dlopen(argv[2], RTLD_NOW | RTLD_LOCAL), "meant");
}
#endif
