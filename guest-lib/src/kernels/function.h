// What is known of a function: its attributes and occupancy, which the server tells with the module
// or is asked for once. `wire` is the server's handle of the function (function_resolve, lookup.h).
#ifndef OUTBOARD_FUNCTION_H
#define OUTBOARD_FUNCTION_H

#include "kernels/module.h"
#include "session/session.h"

// Sees to it that the function is described, which may take a round trip. CUDA_SUCCESS also when
// the server could not tell anything: function_attribute says why then.
CUresult function_describe(struct session *session, struct function *function, uint64_t wire);
// Notes what the server has told of the function.
void function_take_description(struct function *function, const struct wire_description *told);
// Forgets it, because the server has forgotten the function or its attributes have changed.
void function_forget_description(struct function *function);
// Frees a function whose handles are retired; NULL is fine.
void function_free(struct function *function);

// Sets *value to an attribute's value, and asks the server where it is not known.
CUresult function_attribute(struct session *session, struct function *function, uint64_t wire,
                            CUfunction_attribute attribute, int *value);

#endif
