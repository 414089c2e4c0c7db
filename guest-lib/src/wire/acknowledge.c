#include "wire/acknowledge.h"

#include "guest_calls.h"
#include "wire/answer.h"
#include "wire/enter.h"

CUresult server_acknowledge(struct session *session) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_Acknowledge(session, &answer);
  if (!guest_is_lost() && result) {
    guest_async_error(session, result);  // of work before
    result = CUDA_SUCCESS;
  }
  answer_free(&answer);
  return result;
}
