// Copies that a structure of the driver API describes: of planes and volumes, and between contexts.
#ifndef OUTBOARD_DESCRIBED_COPY_H
#define OUTBOARD_DESCRIBED_COPY_H

#include "copies/copy.h"
#include "cuda_driver.h"

// Reads a description into the ends and the box of a copy, which copy_resolve has yet to look at.
// `what` must not be NULL; the box may turn out empty. CUDA_ERROR_INVALID_VALUE for what no copy
// can be: pitches that are too small, positions outside an array, memory types or levels of detail
// that there are not.
CUresult copy_described(const CUDA_MEMCPY3D *what, struct copy *copy);

#endif
