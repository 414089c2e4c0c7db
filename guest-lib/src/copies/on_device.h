// Copies that the device makes by itself.
#ifndef OUTBOARD_ON_DEVICE_H
#define OUTBOARD_ON_DEVICE_H

#include "copies/copy.h"

// Posts a located copy between device memory and arrays.
CUresult copy_on_device(const struct copy *copy);

#endif
