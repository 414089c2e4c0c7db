// A round trip that asks for nothing. Also for measuring what a design decision saves
// (base/ablation.h): calls that it makes free of a round trip are given one.
#ifndef OUTBOARD_ECHO_H
#define OUTBOARD_ECHO_H

#include "cuda_driver.h"

struct session;

// To be called after a call that came to `result`, which it returns. Waits for an echo of the
// server if the call went well and what saves it a round trip is switched off.
CUresult echo_after(int call, CUresult result);
// Waits until the server has executed what was sent before. To be called in a call, where it may
// send. An error of that work is left for the call to find.
void echo_ask(struct session *session);

#endif
