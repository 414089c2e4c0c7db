// Questions about algorithms as they travel.
#ifndef LIBRARIES_LT_ALGO_H
#define LIBRARIES_LT_ALGO_H

#include "lt_descriptor.h"

// Adds what cublasLtMatmulAlgoCheck asks. Returns a cublasStatus_t.
int lt_add_check(struct lt_words *words, const void *algo, const struct lt_object *desc,
                 const struct lt_object *const layouts[4]);

#endif
