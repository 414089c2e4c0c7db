#include "json.h"

#include <string.h>

#define DEPTH_MAX 64

struct parser {
  const char *at, *end;
  const struct json_reader *reader;
  unsigned depth;
};

static void skip_space(struct parser *p) {
  while (p->at < p->end && strchr(" \t\r\n", *p->at) && *p->at) p->at++;
}

static _Bool take(struct parser *p, char wanted) {
  skip_space(p);
  if (p->at == p->end || *p->at != wanted) return 0;
  p->at++;
  return 1;
}

static _Bool read_string(struct parser *p, struct json_text *text) {
  if (!take(p, '"')) return 0;
  text->at = p->at;
  while (p->at < p->end && *p->at != '"') p->at += *p->at == '\\' && p->end - p->at > 1 ? 2 : 1;
  text->length = (size_t)(p->at - text->at);
  return take(p, '"');
}

// A number or a word.
static _Bool read_word(struct parser *p, struct json_text *text) {
  static const char letters[] = "0123456789+-.eEtrufalsn";
  text->at = p->at;
  while (p->at < p->end && *p->at && strchr(letters, *p->at)) p->at++;
  text->length = (size_t)(p->at - text->at);
  return text->length != 0;
}

static _Bool read_value(struct parser *p, const struct json_text *key);

static _Bool read_element(struct parser *p, _Bool object) {
  struct json_text key;
  if (object && !(read_string(p, &key) && take(p, ':'))) return 0;
  return read_value(p, object ? &key : NULL);
}

static _Bool read_container(struct parser *p, _Bool object) {
  const char close = object ? '}' : ']';
  if (++p->depth > DEPTH_MAX) return 0;
  _Bool over = take(p, close);
  while (!over) {
    if (!read_element(p, object)) return 0;
    over = take(p, close);
    if (!over && !take(p, ',')) return 0;
  }
  p->reader->ended(p->reader->context, p->depth--);
  return 1;
}

static _Bool read_value(struct parser *p, const struct json_text *key) {
  if (take(p, '{')) return read_container(p, 1);
  if (take(p, '[')) return read_container(p, 0);
  struct json_text value;
  const _Bool string = p->at < p->end && *p->at == '"';
  if (!(string ? read_string(p, &value) : read_word(p, &value))) return 0;
  if (key) p->reader->member(p->reader->context, p->depth, *key, value);
  return 1;
}

_Bool json_read(const char *text, size_t length, const struct json_reader *reader) {
  struct parser parser = {.at = text, .end = text + length, .reader = reader};
  if (!read_value(&parser, NULL)) return 0;
  skip_space(&parser);
  return parser.at == parser.end;
}

_Bool json_is(struct json_text text, const char *what) {
  return text.length == strlen(what) && memcmp(text.at, what, text.length) == 0;
}

void json_copy(struct json_text text, char *to, size_t size) {
  const size_t length = text.length < size ? text.length : size - 1;
  memcpy(to, text.at, length);
  to[length] = 0;
}
