#include "lt_memo.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// A power of two; as many problems as a large program has. Most answers have some 100 bytes.
enum { PLACES = 1 << 12, NEAR = 4 };

struct kept {
  struct learnt_key key;
  int32_t status;
  uint32_t size;
  unsigned char results[];
};
static struct kept *places[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

_Bool lt_recall(struct learnt_key key, struct remote_answer *answer) {
  const struct kept *found = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < NEAR && !found; i++) {
    const struct kept *one = places[(key.value + i) % PLACES];
    if (one && one->key.value == key.value) found = one;
  }
  if (found) {
    answer->status = found->status;
    answer->size = found->size;
    memcpy(answer->results, found->results, found->size);
  }
  pthread_mutex_unlock(&lock);
  return found != NULL;
}

void lt_remember(struct learnt_key key, const struct remote_answer *answer) {
  struct kept *one = malloc(sizeof *one + answer->size);
  if (!one) return;
  one->key = key;
  one->status = answer->status;
  one->size = answer->size;
  memcpy(one->results, answer->results, answer->size);
  pthread_mutex_lock(&lock);
  size_t at = key.value % PLACES;
  for (size_t i = 0; i < NEAR; i++) {
    if (places[(key.value + i) % PLACES]) continue;
    at = (key.value + i) % PLACES;
    break;
  }
  free(places[at]);
  places[at] = one;
  pthread_mutex_unlock(&lock);
}
