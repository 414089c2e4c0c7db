// What of a fatbin travels: its entries are for many architectures, and a device can use few.
#ifndef OUTBOARD_SELECTION_H
#define OUTBOARD_SELECTION_H

#include <stddef.h>
#include <stdint.h>

#include "setup/device_description.h"

// The devices that are to use what travels, by compute capability (90 for 9.0), each once. None:
// everything travels.
struct selection {
  unsigned count;
  uint32_t capability[DEVICES_MAX];
};

// Adds a device.
void selection_add(struct selection *selection, int major, int minor);

// Returns the size of a fatbin of `size` bytes with only those entries that one of the devices can
// use: machine code of its architecture, and the newest PTX that is not above it. It is `size`
// where all entries are kept: because they are usable, because nothing is, so that the driver says
// what it makes of it, or because the fatbin makes no sense.
size_t selection_size(const struct selection *selection, const void *fatbin, size_t size);
// Writes that fatbin to `to`, where there is room for as many bytes. False when it is another size
// now: it may lie in a file that somebody writes to.
_Bool selection_write(const struct selection *selection, const void *fatbin, size_t size, void *to,
                      size_t room);

#endif
