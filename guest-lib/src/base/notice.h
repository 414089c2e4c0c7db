// What the person in front of `outboard run` is to know, on stderr: why there is no GPU, that one
// is waited for, why a session is over. OUTBOARD_NOTICES asks for it, as the command sets it: a
// folder in which the processes of one run note what was said already. Without it nothing is said,
// nor with an OUTBOARD_LOG that goes to stderr, or is off: that is what somebody wanted to see.
#ifndef OUTBOARD_NOTICE_H
#define OUTBOARD_NOTICE_H

#include <stdint.h>

#include "setup/log.h"

// Reads the environment, and notes in the folder that a process of the run makes CUDA calls. To be
// called once, when the log is open.
void notice_open(void);

// Sets whether errors that are logged are said as well, as those of attaching are.
void notice_errors(_Bool on);

// Logs a line, and says it, once in a run.
void notice(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Keeps a sentence for the command to say when the program has ended: the first of that name in a
// run. `name` is that of a file in the folder.
void notice_at_end(const char *name, const char *text);

// Logs a place in the queue, and says it each time where stderr is a terminal; elsewhere as
// base/place.h has it, in the three functions that follow. For one thread at a time.
void notice_place(unsigned position);
// From when on, as clock_ms() has it, notice_due is to be called unless the place changes before;
// below 0: never.
int64_t notice_due_at(void);
void notice_due(void);
// The wait is over, if there was one: with a GPU, or without one, which others say.
void notice_waited(_Bool well);

#endif
