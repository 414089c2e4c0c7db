// What the server tells of calls that earlier sessions of the function have made.
#ifndef LIBRARIES_TOLD_H
#define LIBRARIES_TOLD_H

#include "kernels/remote_call.h"
#include "learnt.h"

// Takes it for a library where there is some, and that has not taken it: what has succeeded is
// learnt then, and answers go to `remember`, where that is one. To be called by who would have to
// ask.
_Bool told_take(uint32_t library,
                void (*remember)(struct learnt_key key, const struct remote_answer *answer));

#endif
