// Reads JSON once from end to end, as far as the Extensions API needs it: who is called gets each
// member of objects whose value is no container. Any bytes are safe input.
#ifndef OUTBOARD_JSON_H
#define OUTBOARD_JSON_H

#include <stddef.h>

// A piece of the text: a string as it is written between its quotes, escapes and all, or a number,
// true, false, null.
struct json_text {
  const char *at;
  size_t length;
};

struct json_reader {
  // A member, in an object that lies in `depth` containers, itself among them.
  void (*member)(void *context, unsigned depth, struct json_text key, struct json_text value);
  // A container has ended that lay in `depth` containers, itself among them.
  void (*ended)(void *context, unsigned depth);
  void *context;
};

// False where the text is no JSON value, or nests deeper than 64; members before that were told.
_Bool json_read(const char *text, size_t length, const struct json_reader *reader);

_Bool json_is(struct json_text text, const char *what);
// Copies it with a 0 behind it; what does not fit is cut off.
void json_copy(struct json_text text, char *to, size_t size);

#endif
