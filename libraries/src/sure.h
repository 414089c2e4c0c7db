// Calls of which nothing is left to ask once the library has served one like them: the classical
// functions, and products of usual types, with parameters that cannot be refused. Any thread.
#ifndef LIBRARIES_SURE_H
#define LIBRARIES_SURE_H

#include <stdint.h>

#include "learnt.h"
#include "library_call.h"

// Whether a call of `function` with these parameters (without the handle, as the program gave them)
// succeeds wherever another one of the same `key` has. Says no where it cannot tell.
_Bool sure(const struct library_call *call, uint32_t function, const uint64_t *words,
           struct learnt_key *key);

#endif
