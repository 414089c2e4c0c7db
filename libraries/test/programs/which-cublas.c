// Says which files it has under the names of cuBLAS, in all ways in which programs come to them. It
// is linked with a cuBLAS that its DT_RPATH names, as modules of Python packages are.
//   which-cublas FOLDER   where its own libraries are
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cublasGetStatusName(int status);
extern char **environ;

static void say(const char *way, const void *symbol) {
  Dl_info info;
  printf("%s: %s\n", way, symbol && dladdr(symbol, &info) ? info.dli_fname : "none");
}

static void open_it(const char *way, const char *name, const char *symbol) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) printf("%s: %s\n", way, dlerror());
  if (library) say(way, dlsym(library, symbol));
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  char path[4096];
  // As programs do that change what ps shows.
  for (char **one = environ; *one; one++) memset(*one, 'x', strlen(*one));
  say("linked", dlsym(RTLD_DEFAULT, "cublasGetStatusName"));
  printf("it says: %s\n", cublasGetStatusName(0));
  snprintf(path, sizeof path, "%s/libcublas.so.13", argv[1]);
  open_it("cuBLAS by its path", path, "cublasGetStatusName");
  snprintf(path, sizeof path, "%s/libcublasLt.so.13", argv[1]);
  open_it("cuBLASLt by its path", path, "cublasLtGetVersion");
  open_it("cuBLASLt by its name", "libcublasLt.so.13", "cublasLtGetVersion");
  snprintf(path, sizeof path, "%s/libcublas.so.12", argv[1]);
  open_it("cuBLAS of CUDA 12", path, "cublasGetStatusName");
  say("the auditor", dlsym(RTLD_DEFAULT, "la_version"));
  return 0;
}
