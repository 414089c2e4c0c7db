// What is known of a function: attributes and occupancy, told with its module or asked for once.
#ifndef OUTBOARD_FUNCTION_H
#define OUTBOARD_FUNCTION_H

#include "kernels/module.h"

// Sees to it that the function is described. CUDA_SUCCESS also when the server could not tell
// anything: function_attribute says why then.
CUresult function_describe(struct function *function, uint64_t wire);
void function_take_description(struct function *function, const struct wire_description *told);
// The server has forgotten the function's attributes, or they are about to change.
void function_forget_description(struct function *function);
void function_free(struct function *function);

// An attribute's value. `wire` is the server's handle of the function.
CUresult function_attribute(struct function *function, uint64_t wire,
                            CUfunction_attribute attribute, int *value);

#endif
