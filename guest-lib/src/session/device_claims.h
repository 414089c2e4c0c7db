// What of a device's attributes programs are told. What a device offers beside a program, but not
// through us, is 0, and so is what this library does not know.
#ifndef OUTBOARD_DEVICE_CLAIMS_H
#define OUTBOARD_DEVICE_CLAIMS_H

#include "setup/device_description.h"

// Takes out of the device's attributes what is not offered. An attribute that is not known is
// logged, once for all devices.
void device_claims_restrict(struct device *device);

// Whether the attribute is known: either passed on, or not and it is written down why.
_Bool device_claims_knows(unsigned attribute);

#endif
