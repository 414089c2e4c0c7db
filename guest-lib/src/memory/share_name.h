// What servers let each other into what is a session's by: passed on as it is.
#ifndef OUTBOARD_SHARE_NAME_H
#define OUTBOARD_SHARE_NAME_H

#include <stdint.h>

#include "wire/answer.h"
#include "wire/enter.h"

struct share_name {
  uint64_t words[8];
};
#define SHARE_NAME_ARGUMENTS(t)                                                       \
  (t).words[0], (t).words[1], (t).words[2], (t).words[3], (t).words[4], (t).words[5], \
      (t).words[6], (t).words[7]

// The result of a question about what is shared is of the call alone: errors of work before are for
// the next that synchronises.
static inline CUresult answer_own_result(CUresult result, const struct answer *answer) {
  if (guest_is_lost()) return result;
  if (result != (CUresult)answer->result) guest_async_error(session_here(), result);
  return (CUresult)answer->result;
}

#endif
