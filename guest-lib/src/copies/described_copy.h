// Copies that a structure of the driver API describes.
#ifndef OUTBOARD_DESCRIBED_COPY_H
#define OUTBOARD_DESCRIBED_COPY_H

#include "copies/box.h"
#include "cuda_driver.h"

// What a structure of the driver API describes, not located yet.
CUresult box_described(const CUDA_MEMCPY3D *what, struct box_end *to, struct box_end *from,
                       struct box *box);

#endif
