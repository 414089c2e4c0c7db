#include "wire/echo.h"

#include "base/ablation.h"
#include "base/call.h"
#include "guest_calls.h"
#include "wire/answer.h"
#include "wire/enter.h"

void echo_ask(struct session *session) {
  struct answer answer;
  answer_init(&answer);
  ask_Echo(session, &answer);
  answer_free(&answer);
}

CUresult echo_after(int call, CUresult result) {
  if (!ablation) return result;
  const unsigned traits = call_traits[call];
  const _Bool asks = (ablated(ABLATE_LOCAL) && traits & CALL_IS_LOCAL) ||
                     (ablated(ABLATE_HANDLES) && traits & CALL_MINTS) ||
                     (ablated(ABLATE_POSTED) && !(traits & (CALL_IS_LOCAL | CALL_WAITS)));
  if (!result && asks && !atomic_load(&guest_obstacles)) echo_ask(session_here());
  return result;
}
