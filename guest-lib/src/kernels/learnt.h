// What earlier sessions of the function have learnt of libraries (Welcome.learnt): the server tells
// it unasked, and libcublas.so.13 of ours takes it when it would have to ask (companion.h).
#ifndef OUTBOARD_LEARNT_H
#define OUTBOARD_LEARNT_H

#include "control.pb.h"
#include "session/session.h"

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool learnt_make(struct session *session);
// To be called with each Welcome.
void learnt_told(struct session *session, const outboard_Welcome *welcome);
// Registers the answer. To be called when all sessions are attached, before anything is read.
void learnt_start(struct session *session);
// To be called after a reset of the context, with which algorithms end: takes nothing more.
void learnt_forget(struct session *session);

// Of one call: its key, the library's status and results, which are none where it starts work.
typedef void learnt_each(void *context, uint64_t key, int32_t status, const void *results,
                         uint32_t size);
// Takes it for a library (LIBRARY_CUBLAS, ...), waiting until it has come, and calls `each` for
// every call. False where there is nothing to take, or that library has taken it.
_Bool learnt_take(struct session *session, uint32_t library, learnt_each *each, void *context);

#endif
