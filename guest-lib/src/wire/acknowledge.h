// Waiting until the server has taken up what was sent.
#ifndef OUTBOARD_ACKNOWLEDGE_H
#define OUTBOARD_ACKNOWLEDGE_H

#include "cuda_driver.h"
#include "session/session.h"

// Returns when the server has taken up all that was sent in the session so far, which takes a round
// trip; the device may not have done it yet. Errors of earlier work are kept for the next call that
// synchronises. Not CUDA_SUCCESS only when the connection is lost.
CUresult server_acknowledge(struct session *session);

#endif
