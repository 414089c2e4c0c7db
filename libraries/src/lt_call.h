// Calls of cuBLASLt on their way.
#ifndef LIBRARIES_LT_CALL_H
#define LIBRARIES_LT_CALL_H

#include "cuda_driver.h"
#include "kernels/remote_call.h"
#include "lt_descriptor.h"

// Begins the words of a call.
void lt_begin(struct lt_words *words, enum lt_function function);
// Whether the same call has succeeded, which needs not be waited for then.
_Bool lt_is_known(const struct lt_words *words);
// Makes a call that puts work on a stream: it waits for its status until the same has succeeded
// once, or one that was `alike`; NULL: none is. Returns a cublasStatus_t.
int lt_start(const char *name, enum lt_function function, const struct lt_words *words,
             const struct learnt_key *alike, CUstream stream);
// Makes one that computes its results from its words alone: what was answered once is not asked for
// again. `answer->status` is STATUS_SUCCESS where this returns that.
int lt_ask(const char *name, enum lt_function function, const struct lt_words *words,
           struct remote_answer *answer);

#endif
