// What the person in front of `outboard run` is to know, on stderr: why there is no GPU, that one
// is waited for, why a session is over. OUTBOARD_NOTICES asks for it, as the command sets it: a
// folder in which the processes of one run note what was said already. Without it nothing is said,
// nor with an OUTBOARD_LOG that goes to stderr, or is off: that is what somebody wanted to see.
#ifndef OUTBOARD_NOTICE_H
#define OUTBOARD_NOTICE_H

#include "setup/log.h"

// From the environment, once; notes in the folder that a process of the run makes CUDA calls.
void notice_open(void);

// From now on errors that are logged are said as well, or no longer: those of attaching.
void notice_errors(_Bool on);

// Said once in a run, and logged.
void notice(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A place in the queue: said each time, where somebody looks on.
void notice_place(unsigned position);

#endif
