#include "setup/program.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "abi_descriptor.h"

// As much as the options of an interpreter take.
#define ARGUMENTS_MAX 4096

// An interpreter, by how its name begins: python3.11 is one, pythonista is not.
struct interpreter {
  const char *begins;
  // Options of one letter that take a value, in the same word or the next; what `code` takes is a
  // program, what `module` takes the name of one.
  const char *valued, *code, *module;
  // Long options that take the next word; those whose value is a program, in the next word or
  // behind a =.
  const char *long_valued[4], *long_code[2];
};

static const struct interpreter interpreters[] = {
    {"python", "WXcm", "c", "m", {"--check-hash-based-pycs"}, {0}},
    {"pypy", "WXcm", "c", "m", {"--check-hash-based-pycs"}, {0}},
    {"node", "Crep", "ep", "", {"--require", "--import"}, {"--eval", "--print"}},
    {"perl", "eE", "eE", "", {0}, {0}},
    {"bash", "cOo", "c", "", {"--rcfile", "--init-file"}, {0}},
    {"sh", "co", "c", "", {0}, {0}},
};

static const struct interpreter *interpreter_of(const char *executable) {
  for (unsigned i = 0; i < sizeof interpreters / sizeof *interpreters; i++) {
    size_t length = strlen(interpreters[i].begins);
    if (strncmp(executable, interpreters[i].begins, length) != 0) continue;
    const char *rest = executable + length;
    if (strspn(rest, "0123456789.td-") == strlen(rest)) return &interpreters[i];
  }
  return NULL;
}

// The word behind `word`, or NULL behind the last one that is whole.
static const char *after(const char *word, const char *end) {
  const char *next = (const char *)memchr(word, 0, (size_t)(end - word)) + 1;
  return next < end && memchr(next, 0, (size_t)(end - next)) ? next : NULL;
}

static _Bool takes_next(const struct interpreter *interpreter, const char *word) {
  for (unsigned i = 0; i < 4 && interpreter->long_valued[i]; i++)
    if (strcmp(word, interpreter->long_valued[i]) == 0) return 1;
  return 0;
}

static _Bool has_code(const struct interpreter *interpreter, const char *word) {
  for (unsigned i = 0; i < 2 && interpreter->long_code[i]; i++) {
    const size_t length = strlen(interpreter->long_code[i]);
    if (strncmp(word, interpreter->long_code[i], length) != 0) continue;
    if (word[length] == 0 || word[length] == '=') return 1;
  }
  return 0;
}

// The script or module that an interpreter was told to run; NULL: none, as of code in its
// arguments.
static const char *script_of(const struct interpreter *interpreter, const char *arguments,
                             const char *end) {
  const char *word =
      arguments < end && memchr(arguments, 0, (size_t)(end - arguments)) ? arguments : NULL;
  for (word = word ? after(word, end) : NULL; word; word = after(word, end)) {
    if (word[0] != '-') return word;
    if (word[1] == 0) return NULL;
    if (word[1] == '-') {
      // What follows two dashes is a script, whatever its name.
      if (word[2] == 0) return after(word, end);
      if (has_code(interpreter, word)) return NULL;
      if (takes_next(interpreter, word) && !(word = after(word, end))) return NULL;
      continue;
    }
    const char *letter = word + 1 + strcspn(word + 1, interpreter->valued);
    if (!*letter) continue;
    if (strchr(interpreter->code, *letter)) return NULL;
    const char *value = letter[1] ? letter + 1 : (word = after(word, end));
    if (!word) return NULL;
    if (strchr(interpreter->module, *letter)) return value;
  }
  return NULL;
}

static const char *base_of(const char *path, size_t *length) {
  *length = strlen(path);
  while (*length > 1 && path[*length - 1] == '/') --*length;
  const char *slash = *length > 1 ? memrchr(path, '/', *length) : NULL;
  const char *base = slash ? slash + 1 : path;
  *length -= (size_t)(base - path);
  return base;
}

void program_name_of(const char *executable, const char *arguments, size_t length, char *name,
                     size_t size) {
  const struct interpreter *interpreter = interpreter_of(executable);
  const char *script = interpreter ? script_of(interpreter, arguments, arguments + length) : NULL;
  size_t bytes = 0;
  const char *base = script ? base_of(script, &bytes) : NULL;
  if (!bytes) {
    base = executable;
    bytes = strlen(executable);
  }
  if (bytes >= size) bytes = size - 1;
  memcpy(name, base, bytes);
  name[bytes] = 0;
}

void program_name(char *name, size_t size) {
  static char arguments[ARGUMENTS_MAX];
  size_t length = 0;
  // Not opened for programs that run no script.
  if (interpreter_of(program_invocation_short_name)) {
    int fd = descriptor_above(open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
    for (ssize_t got = 1; fd >= 0 && got > 0 && length < sizeof arguments;) {
      got = read(fd, arguments + length, sizeof arguments - length);
      if (got > 0) length += (size_t)got;
    }
    if (fd >= 0) close(fd);
  }
  program_name_of(program_invocation_short_name, arguments, length, name, size);
}
