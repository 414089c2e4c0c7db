// Finds `.entry name ( .param .u64 a, .param .align 8 .b8 b[24] )` in PTX. The parameters lie one
// behind the other, each at its natural or declared alignment.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

struct text {
  const char *at;
  const char *end;
};

// A copy without comments, which may hold anything.
static char *without_comments(const char *text, uint64_t length) {
  char *copy = malloc(length + 1);
  if (!copy) return NULL;
  memcpy(copy, text, length);
  copy[length] = 0;
  for (char *at = copy; (at = strchr(at, '/'));) {
    char *end = at[1] == '/' ? strchr(at, '\n') : at[1] == '*' ? strstr(at + 2, "*/") : at + 1;
    if (end == at + 1) {
      at = end;
      continue;
    }
    if (end && at[1] == '*') end += 2;
    if (!end) end = copy + length;
    memset(at, ' ', (size_t)(end - at));
    at = end;
  }
  return copy;
}

// The next word or sign; a word has its leading dot. Length 0 at the end.
static struct text next(struct text *text) {
  while (text->at < text->end && isspace((unsigned char)*text->at)) text->at++;
  struct text token = {text->at, text->at};
  while (token.end < text->end) {
    char c = *token.end;
    bool word = isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' ||
                (c == '.' && token.end == token.at);
    if (!word) break;
    token.end++;
  }
  if (token.end == token.at && token.at < text->end) token.end++;
  text->at = token.end;
  return token;
}

static bool is(struct text token, const char *word) {
  size_t length = strlen(word);
  return (size_t)(token.end - token.at) == length && !memcmp(token.at, word, length);
}

// 0 when it is no number.
static uint32_t number(struct text token) {
  uint64_t value = 0;
  for (const char *c = token.at; c < token.end; c++) {
    if (!isdigit((unsigned char)*c) || value > UINT32_MAX / 10) return 0;
    value = value * 10 + (uint64_t)(*c - '0');
  }
  return (uint32_t)value;
}

// Bytes of `.u64`; 0 when the word is no type.
static uint32_t type_size(struct text token) {
  if (token.end - token.at < 3 || *token.at != '.' || !strchr("bsuf", token.at[1])) return 0;
  token.at += 2;
  uint32_t bits = number(token);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

static bool add_parameter(struct kernel *kernel, uint32_t *used, uint32_t size, uint32_t align) {
  struct parameter *grown =
      realloc(kernel->parameters, (kernel->parameter_count + 1) * sizeof *kernel->parameters);
  if (!grown || !size || (align & (align - 1))) {
    if (grown) kernel->parameters = grown;
    return false;
  }
  kernel->parameters = grown;
  uint32_t offset = (*used + align - 1) & ~(align - 1);
  kernel->parameters[kernel->parameter_count++] = (struct parameter){offset, size};
  *used = offset + size;
  return true;
}

// Behind `.param`, up to and including the sign that ends it.
static bool read_parameter(struct text *text, struct kernel *kernel, uint32_t *used, bool *more) {
  uint32_t unit = 0, align = 0, count = 1;
  for (;;) {
    struct text token = next(text);
    if (token.at == token.end) return false;
    if (is(token, ",") || is(token, ")")) {
      *more = is(token, ",");
      return add_parameter(kernel, used, unit * count, align ? align : unit);
    }
    if (is(token, ".ptr")) {
      // What it points to may have an alignment of its own: `.ptr .global .align 4`.
      struct text ahead = *text;
      for (token = next(&ahead); token.end - token.at > 1 && *token.at == '.'; token = next(&ahead))
        if (is(token, ".align")) next(&ahead);
      text->at = token.at;
    } else if (is(token, ".align")) {
      align = number(next(text));
    } else if (is(token, "[")) {
      count = number(next(text));
    } else if (!unit) {
      unit = type_size(token);
    }
  }
}

static bool read_entry(struct text *text, struct kernel *kernel) {
  struct text name = next(text);
  kernel->name = strndup(name.at, (size_t)(name.end - name.at));
  if (!kernel->name || name.at == name.end) return false;
  struct text ahead = *text;
  if (!is(next(&ahead), "(")) return true;
  *text = ahead;
  uint32_t used = 0;
  for (bool more = true; more;) {
    struct text token = next(text);
    if (is(token, ")")) break;
    if (!is(token, ".param") || !read_parameter(text, kernel, &used, &more)) return false;
  }
  return true;
}

bool ptx_kernels(const char *ptx, uint64_t length, struct kernel **tail) {
  char *text = without_comments(ptx, length);
  if (!text) return false;
  struct text rest = {text, text + length};
  bool read = true;
  while (read) {
    const char *found = strstr(rest.at, ".entry");
    if (!found) break;
    rest.at = found + 6;
    if (!isspace((unsigned char)*rest.at)) continue;
    struct kernel *kernel = calloc(1, sizeof *kernel);
    read = kernel && read_entry(&rest, kernel);
    if (!kernel) break;
    *tail = kernel;
    tail = &kernel->next;
  }
  free(text);
  return read;
}
