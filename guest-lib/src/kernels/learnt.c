#include "kernels/learnt.h"

#include <pthread.h>

#include "learnt_calls.h"
#include "library_call.h"
#include "setup/log.h"
#include "wire/answer.h"
#include "wire_calls.h"

struct learnt_answer {
  unsigned untaken;  // a bit for each library that has not taken it
  _Bool asked_for;   // somebody has waited for it, so that it is not waited for again
  struct answer answer;
};

_Bool learnt_make(struct session *session) { return session_part(session->learnt); }

// Held while it is waited for: each library takes it once.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void learnt_told(struct session *session, const outboard_Welcome *welcome) {
  enum { EVERY = 1 << LIBRARY_CUBLAS | 1 << LIBRARY_CUBLASLT };
  session->learnt->untaken = welcome->learnt ? EVERY : 0;
  session->learnt->asked_for = 0;
}

void learnt_start(struct session *session) {
  struct learnt_answer *learnt = session->learnt;
  if (!learnt->untaken) return;
  answer_init(&learnt->answer);
  answer_expect_unasked(session, &learnt->answer, WIRE_LEARNT);
}

void learnt_forget(struct session *session) {
  pthread_mutex_lock(&lock);
  session->learnt->untaken = 0;
  pthread_mutex_unlock(&lock);
}

static void tell(const struct wire_LibraryAsk_reply *reply, learnt_each *each, void *context) {
  uint32_t left = reply->reply.header.size - (uint32_t)sizeof *reply;
  if (reply->results_size < left) left = reply->results_size;
  const unsigned char *at = (const unsigned char *)(reply + 1);
  while (left >= sizeof(struct learnt_call)) {
    const struct learnt_call *call = (const struct learnt_call *)at;
    at += sizeof *call;
    left -= (uint32_t)sizeof *call;
    if (call->size > LEARNT_RESULTS_MOST || wire_round_up(call->size) > left) {
      log_warn("what the server tells of libraries is longer than it is: the rest is not taken");
      return;
    }
    each(context, call->key, call->status, at, call->size);
    at += wire_round_up(call->size);
    left -= (uint32_t)wire_round_up(call->size);
  }
}

_Bool learnt_take(struct session *session, uint32_t library, learnt_each *each, void *context) {
  struct learnt_answer *learnt = session->learnt;
  _Bool whole = 0;
  pthread_mutex_lock(&lock);
  if (learnt->untaken & 1u << library) {
    learnt->untaken &= ~(1u << library);
    // Its reply stays for the other one, and until the session's end where that never comes.
    const CUresult result =
        learnt->asked_for ? CUDA_SUCCESS : answer_wait(session, &learnt->answer);
    learnt->asked_for = 1;
    if (result) learnt->untaken = 0;
    const struct wire_LibraryAsk_reply *reply = learnt->answer.reply;
    whole = !result && reply && reply->reply.header.size >= sizeof *reply;
    if (whole) tell(reply, each, context);
    if (!learnt->untaken) answer_free(&learnt->answer);
  }
  pthread_mutex_unlock(&lock);
  return whole;
}
