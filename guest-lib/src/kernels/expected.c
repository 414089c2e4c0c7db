#include "kernels/expected.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "session/session.h"
#include "wire_calls.h"

struct expected {
  uint64_t hash[4], size;
  _Bool over;  // taken, or not there
  struct answer answer;
};

struct expected_modules {
  struct expected *all;
  uint32_t count;
};

_Bool expected_make(struct session *session) { return session_part(session->expected_modules); }

// Taking is rare.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

_Bool expected_told(struct session *session, const outboard_Welcome *welcome) {
  struct expected_modules *list = session->expected_modules;
  free(list->all);
  *list = (struct expected_modules){0};
  if (!welcome->expected_count) return 1;
  list->all = calloc(welcome->expected_count, sizeof *list->all);
  if (!list->all) return 0;
  list->count = welcome->expected_count;
  for (uint32_t i = 0; i < list->count; i++) {
    const outboard_ExpectedModule *told = &welcome->expected[i];
    struct expected *one = &list->all[i];
    one->size = told->size;
    one->over = told->hash.size != sizeof one->hash;
    if (!one->over) memcpy(one->hash, told->hash.bytes, sizeof one->hash);
  }
  return 1;
}

void expected_start(struct session *session) {
  struct expected_modules *list = session->expected_modules;
  for (uint32_t i = 0; i < list->count; i++) {
    answer_init(&list->all[i].answer);
    answer_expect_unasked(session, &list->all[i].answer, WIRE_EXPECTED + i);
  }
}

static struct expected *find(struct session *session, const struct image *image, uint32_t *index) {
  const struct expected_modules *list = session->expected_modules;
  for (uint32_t i = 0; i < list->count; i++) {
    struct expected *one = &list->all[i];
    if (one->over || one->size != image->size ||
        memcmp(one->hash, image->hash, sizeof one->hash) != 0)
      continue;
    *index = i;
    return one;
  }
  return NULL;
}

_Bool expected_take(struct session *session, const struct image *image, struct answer **answer,
                    uint32_t *index) {
  pthread_mutex_lock(&lock);
  struct expected *one = find(session, image, index);
  if (one) one->over = 1;
  pthread_mutex_unlock(&lock);
  if (!one) return 0;
  *answer = &one->answer;
  // Whatever kept the server from it, it says when it is asked.
  CUresult result = answer_wait(session, &one->answer);
  const struct wire_ModuleOpen_reply *reply = one->answer.reply;
  if (!result && reply->reply.header.size >= sizeof *reply && reply->state == WIRE_MODULE_LOADED)
    return 1;
  answer_free(&one->answer);
  return 0;
}

void expected_forget(struct session *session) {
  pthread_mutex_lock(&lock);
  struct expected_modules *list = session->expected_modules;
  for (uint32_t i = 0; i < list->count; i++) list->all[i].over = 1;
  pthread_mutex_unlock(&lock);
}
