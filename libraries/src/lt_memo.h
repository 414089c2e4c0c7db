// Answers of cuBLASLt that are the same whenever they are asked for. Any thread.
#ifndef LIBRARIES_LT_MEMO_H
#define LIBRARIES_LT_MEMO_H

#include "kernels/remote_call.h"
#include "learnt.h"

// Whether there is one; it is copied to `answer` then.
_Bool lt_recall(struct learnt_key key, struct remote_answer *answer);
// Keeps one. With very many, older ones are forgotten; without memory, this one is.
void lt_remember(struct learnt_key key, const struct remote_answer *answer);

#endif
