// Share names, which servers make up: whoever has one can open the memory or event that it stands
// for. The guest passes them on as they are.
#ifndef OUTBOARD_SHARE_NAME_H
#define OUTBOARD_SHARE_NAME_H

#include <stdint.h>

#include "wire/answer.h"
#include "wire/enter.h"

struct share_name {
  uint64_t words[8];
};
// The words of a share name as arguments of a generated function (put_X, ask_X).
#define SHARE_NAME_ARGUMENTS(t)                                                       \
  (t).words[0], (t).words[1], (t).words[2], (t).words[3], (t).words[4], (t).words[5], \
      (t).words[6], (t).words[7]

// Returns the result that the call with this question gets, where `result` is what ask_X returned.
// An error of earlier work is not the call's: it is kept for the next that synchronises.
static inline CUresult answer_own_result(CUresult result, const struct answer *answer) {
  if (guest_is_lost()) return result;
  if (result != (CUresult)answer->result) guest_async_error(session_here(), result);
  return (CUresult)answer->result;
}

#endif
