#include "allocation/advice.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

struct part {
  uint64_t begin, end;
  struct advice advice;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct part *parts;  // by address; where there is none, nothing was advised
static size_t count, room;

// The first part that ends behind `address`.
static size_t find(uint64_t address) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (parts[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static _Bool insert(size_t at, struct part part) {
  if (!grow(&parts, &room, count, sizeof *parts)) return 0;
  memmove(&parts[at + 1], &parts[at], (count++ - at) * sizeof *parts);
  parts[at] = part;
  return 1;
}

// No part reaches across `address` afterwards.
static _Bool cut(uint64_t address) {
  size_t at = find(address);
  if (at == count || parts[at].begin >= address) return 1;
  struct part behind = parts[at];
  behind.begin = address;
  if (!insert(at + 1, behind)) return 0;
  parts[at].end = address;
  return 1;
}

_Bool advice_change(uint64_t begin, uint64_t end,
                    void (*change)(struct advice *advice, const void *context),
                    const void *context) {
  pthread_mutex_lock(&lock);
  _Bool done = cut(begin) && cut(end);
  size_t at = find(begin);
  for (uint64_t from = begin; done && from < end; from = parts[at++].end) {
    uint64_t next = at < count && parts[at].begin < end ? parts[at].begin : end;
    if (next > from) done = insert(at, (struct part){.begin = from, .end = next});
    if (done) change(&parts[at].advice, context);
  }
  pthread_mutex_unlock(&lock);
  return done;
}

struct advice advice_at(uint64_t address, uint64_t *end) {
  struct advice advice = {0};
  pthread_mutex_lock(&lock);
  size_t at = find(address);
  if (at < count && parts[at].begin <= address) {
    advice = parts[at].advice;
    if (parts[at].end < *end) *end = parts[at].end;
  } else if (at < count && parts[at].begin < *end) {
    *end = parts[at].begin;
  }
  pthread_mutex_unlock(&lock);
  return advice;
}

void advice_forget(uint64_t begin, uint64_t end) {
  pthread_mutex_lock(&lock);
  if (count && cut(begin) && cut(end)) {
    size_t from = find(begin), to = from;
    while (to < count && parts[to].begin < end) to++;
    memmove(&parts[from], &parts[to], (count - to) * sizeof *parts);
    count -= to - from;
  }
  pthread_mutex_unlock(&lock);
}
