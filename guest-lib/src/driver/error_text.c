#include "driver/error_text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "abi_result.h"
#include "guest_calls.h"
#include "session/session.h"
#include "setup/log.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire_calls.h"

// Asked for once, by the first call that wants a text, and kept for good: programs keep the
// pointers. Without a session, and for what makes no sense, this library's own table answers.
struct texts {
  unsigned count;
  struct text {
    int result;
    const char *name, *sentence;  // NULL: the driver has none
  } all[];
};

static const struct texts ours = {0};
static _Atomic(const struct texts *) known;
static _Bool offered;

// Of several servers, the first device's is asked.
void error_text_offered(const struct session *session) {
  if (session == sessions) offered = 1;
}

// A copy at *room, which moves on; where this library says the same, its own.
static const char *keep(const uint8_t *bytes, size_t size, const char *own, char **room) {
  if (!size) return NULL;
  if (own && strlen(own) == size && !memcmp(own, bytes, size)) return own;
  char *text = *room;
  memcpy(text, bytes, size);
  text[size] = 0;
  *room += size + 1;
  return text;
}

// NULL where the list makes no sense.
static const struct texts *read_list(const uint8_t *list, size_t size, uint32_t count) {
  if (!count || count > WIRE_ERROR_TEXTS_MAX) return NULL;
  // Its heads leave more room than the NULs need that end the texts.
  struct texts *texts = malloc(sizeof *texts + count * sizeof *texts->all + size);
  if (!texts) return NULL;
  char *room = (char *)&texts->all[count];
  texts->count = count;
  for (uint32_t i = 0; i < count; i++) {
    struct wire_error_text head;
    if (size < sizeof head) goto malformed;
    memcpy(&head, list, sizeof head);
    const size_t bytes = wire_round_up((uint32_t)head.name_size + head.sentence_size);
    if (head.name_size > WIRE_ERROR_TEXT_MAX || head.sentence_size > WIRE_ERROR_TEXT_MAX ||
        bytes > size - sizeof head)
      goto malformed;
    list += sizeof head;
    texts->all[i].result = head.result;
    texts->all[i].name = keep(list, head.name_size, abi_result_name(head.result), &room);
    texts->all[i].sentence =
        keep(list + head.name_size, head.sentence_size, abi_result_sentence(head.result), &room);
    list += bytes;
    size -= sizeof head + bytes;
  }
  return texts;

malformed:
  free(texts);
  return NULL;
}

// Errors of earlier work stay for the next call that waits: this one tells of none.
static const struct texts *ask(void) {
  const struct texts *texts = NULL;
  const struct thread_session before = session_switch(sessions);
  struct answer answer;
  answer_init(&answer);
  if (batch_ask(sessions, WIRE_ErrorTexts, sizeof(struct wire_ErrorTexts), &answer)) {
    batch_leave(sessions, BATCH_NO_STREAM);
    const CUresult result = batch_collect(sessions, &answer, sizeof(struct wire_ErrorTexts_reply));
    const struct wire_ErrorTexts_reply *reply = answer.reply;
    if (!result && reply->texts_size <= reply->reply.header.size - sizeof *reply)
      texts = read_list((const uint8_t *)(reply + 1), reply->texts_size, reply->count);
    if (!texts)
      log_warn("the server does not say what errors are called: names are those of this library");
  }
  answer_free(&answer);
  session_back(before);
  return texts;
}

// Before a session, after it, in a child and in functions that streams call nobody can be asked;
// what is known by then stays.
static const struct texts *texts(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const struct texts *all = atomic_load_explicit(&known, memory_order_acquire);
  if (all) return all;
  if (guest_check(NEEDS_INIT) || !offered) return &ours;
  pthread_mutex_lock(&lock);
  all = atomic_load_explicit(&known, memory_order_relaxed);
  if (!all) {
    all = ask();
    if (!all) all = &ours;
    atomic_store_explicit(&known, all, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  return all;
}

static struct text find(int result) {
  const struct texts *all = texts();
  if (!all->count)
    return (struct text){result, abi_result_name(result), abi_result_sentence(result)};
  for (unsigned i = 0; i < all->count; i++)
    if (all->all[i].result == result) return all->all[i];
  return (struct text){0};
}

CUresult guest_cuGetErrorName(CUresult error, const char **pStr) {
  if (!pStr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = find((int)error).name;
  return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuGetErrorString(CUresult error, const char **pStr) {
  if (!pStr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = find((int)error).sentence;
  return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
