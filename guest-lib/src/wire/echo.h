// Calls that are made as dear as a design decision saves (base/ablation.h).
#ifndef OUTBOARD_ECHO_H
#define OUTBOARD_ECHO_H

#include "cuda_driver.h"

// Asks the server for an echo behind a call that came to `result`, if such calls are to be without
// what saves them the question.
CUresult echo_after(int call, CUresult result);

#endif
