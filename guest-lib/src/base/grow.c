#include "base/grow.h"

#include <stdlib.h>

_Bool grow(void *array, size_t *room, size_t count, size_t element) {
  if (count < *room) return 1;
  size_t wanted = *room ? *room * 2 : 16;
  void *grown = realloc(*(void **)array, wanted * element);
  if (!grown) return 0;
  *(void **)array = grown;
  *room = wanted;
  return 1;
}
