// Modules that the server loads before they are asked for, because the program's last session used
// them (Welcome.expected). What follows is about the session that the thread is in.
#ifndef OUTBOARD_EXPECTED_H
#define OUTBOARD_EXPECTED_H

#include "control.pb.h"
#include "images/image.h"
#include "wire/answer.h"

// At each Welcome: which they are. False without memory: their answers must be heard, so there can
// be no session then.
_Bool expected_told(const outboard_Welcome *welcome);
// Once all sessions are attached: their answers may come.
void expected_start(void);

// The server's answer about an image, if it has loaded that: waits for it. What is taken is the
// program's, and nobody else's: the caller tells the server by `index`, and frees the answer.
_Bool expected_take(const struct image *image, struct answer **answer, uint32_t *index);

// A reset of the context has unloaded them.
void expected_forget(void);

#endif
