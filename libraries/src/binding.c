// Which file a process has under the names of cuBLAS and cuBLASLt: ours, whatever it asks for. The
// loader asks an auditor (LD_AUDIT; rtld-audit(7)) before it looks for a library, so that goes for
// what is linked, with or without a path of its own, and for what is opened by an absolute path.
//
// It depends on nothing, not even on libc: the loader keeps auditors and what they depend on apart
// from the program, which would have a second libc for this.
#include <link.h>

#define SELF "/outboard-binding.so"
#define VISIBLE __attribute__((visibility("default")))

static const char *const names[] = {"libcublas.so.13", "libcublasLt.so.13"};
enum { NAMES = sizeof names / sizeof *names, PATH_SIZE = 4096 };

// The libraries beside this one; empty: not known, and nothing is replaced. A copy, as programs
// write over their environment to change what ps shows.
static char ours[NAMES][PATH_SIZE];

static size_t length(const char *text) {
  size_t n = 0;
  while (text[n]) n++;
  return n;
}

static _Bool equal(const char *one, const char *other, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (one[i] != other[i]) return 0;
  return 1;
}

static void copy(char *to, const char *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) to[i] = from[i];
}

static void set_folder(const char *folder, size_t bytes) {
  for (int i = 0; i < NAMES; i++) {
    const size_t name = length(names[i]);
    if (bytes + 1 + name + 1 > PATH_SIZE) return;
    copy(ours[i], folder, bytes);
    ours[i][bytes] = '/';
    copy(ours[i] + bytes + 1, names[i], name + 1);
  }
}

// The loader hands constructors what main gets.
__attribute__((constructor)) static void find_folder(int argc, char **argv, char **environment) {
  (void)argc;
  (void)argv;
  static const char variable[] = "LD_AUDIT=";
  const size_t self = sizeof SELF - 1;
  for (; *environment; environment++) {
    // Stops at the end of a shorter one, too.
    if (!equal(*environment, variable, sizeof variable - 1)) continue;
    for (const char *entry = *environment + sizeof variable - 1;;) {
      size_t bytes = 0;
      while (entry[bytes] && entry[bytes] != ':') bytes++;
      if (bytes > self && equal(entry + bytes - self, SELF, self))
        return set_folder(entry, bytes - self);
      if (!entry[bytes]) break;
      entry += bytes + 1;
    }
  }
}

// What is used here is the same in all versions.
VISIBLE unsigned la_version(unsigned version) { return version; }

VISIBLE char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {
  (void)cookie;
  (void)flag;
  const char *base = name;
  for (const char *at = name; *at; at++)
    if (*at == '/') base = at + 1;
  for (int i = 0; i < NAMES; i++)
    if (ours[i][0] && equal(base, names[i], length(names[i]) + 1)) return ours[i];
  return (char *)name;
}
