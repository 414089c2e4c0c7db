// Lists that double when they are full.
#ifndef OUTBOARD_GROW_H
#define OUTBOARD_GROW_H

#include <stddef.h>

// Makes room in the array that `array` points to for one element of `element` bytes more than the
// `count` it holds; `room` is how many it could. False, and nothing changed, without memory.
_Bool grow(void *array, size_t *room, size_t count, size_t element);

#endif
