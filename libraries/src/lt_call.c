#include "lt_call.h"

#include "door.h"
#include "library_call.h"
#include "lt_memo.h"
#include "setup/log.h"
#include "status.h"
#include "told.h"

void lt_begin(struct lt_words *words, enum lt_function function) {
  words->count = 0;
  words->key.value = 0;
  words->asks = function != LT_MATMUL && function != LT_TRANSFORM;
  learnt_add(&words->key, function);
}

static CUresult send(enum lt_function function, const struct lt_words *words, struct learnt_key key,
                     CUstream stream, struct remote_answer *answer) {
  const struct remote_call call = {.library = LIBRARY_CUBLASLT,
                                   .stream = stream,
                                   .function = function,
                                   .mode = LIBRARY_MODE_HOST,
                                   .arguments = words->words,
                                   .size = words->count * 8,
                                   .key = key.value};
  if (!door() || door_is_child()) return CUDA_ERROR_NOT_INITIALIZED;
  return door()->remote_call(&call, answer);
}

static int not_answered(const char *name, CUresult result) {
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) door_say_captured(name);
  return status_of(result);
}

_Bool lt_is_known(const struct lt_words *words) { return learnt(learnt_here(words->key)); }

int lt_start(const char *name, enum lt_function function, const struct lt_words *words,
             const struct learnt_key *alike, CUstream stream) {
  const struct learnt_key key = learnt_here(words->key);
  const struct learnt_key widely = alike ? learnt_here(*alike) : key;
  if (learnt_alike(key, widely) ||
      (told_take(LIBRARY_CUBLASLT, lt_remember) && learnt_alike(key, widely)))
    return not_answered(name, send(function, words, words->key, stream, NULL));
  struct remote_answer answer;
  const CUresult result = send(function, words, alike ? *alike : words->key, stream, &answer);
  if (result) return not_answered(name, result);
  if (answer.status) log_debug("%s: the server's library says %d", name, answer.status);
  if (answer.status) return answer.status;
  learn(key);
  learn(widely);
  return STATUS_SUCCESS;
}

// What will be the same the next time.
static _Bool lasts(int status) {
  return status == STATUS_SUCCESS || status == STATUS_INVALID_VALUE ||
         status == STATUS_NOT_SUPPORTED || status == STATUS_ARCH_MISMATCH;
}

int lt_ask(const char *name, enum lt_function function, const struct lt_words *words,
           struct remote_answer *answer) {
  const struct learnt_key key = learnt_here(words->key);
  if (lt_recall(key, answer) ||
      (told_take(LIBRARY_CUBLASLT, lt_remember) && lt_recall(key, answer)))
    return answer->status;
  // No work comes of it, so it is of no stream.
  const CUresult result = send(function, words, words->key, NULL, answer);
  if (result) return not_answered(name, result);
  if (lasts(answer->status)) lt_remember(key, answer);
  return answer->status;
}
