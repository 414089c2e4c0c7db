// The devices of the program, as the servers have described them at attach: a snapshot, so that
// nothing is asked later. Ordinals are CUDA's; where nothing else is said, one that is passed
// exists (device_exists).
#ifndef OUTBOARD_DEVICE_H
#define OUTBOARD_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "setup/device_description.h"

// Takes the devices of all sessions, `count` of them, in the order and choice of `visible`, which
// is the value of CUDA_VISIBLE_DEVICES (NULL: all). What a device cannot do from afar is taken out
// of its attributes. To be called once, at attach; afterwards device_count may be 0.
void device_start(const struct device *all, int count, const char *visible,
                  uint32_t driver_version);

// Whether one of the devices that a server describes, `all_count` of them, can take the place of
// the device: it has the same name, attributes and limits, but for those that tell equal devices
// apart.
_Bool device_is_alike(int ordinal, const struct device *all, int all_count);

// Returns how many devices the program sees; 0 before attach.
int device_count(void);
// Whether there is a device of that ordinal.
_Bool device_exists(int ordinal);
// Returns what is known of a device, which stays until the process ends.
const struct device *device_get(int ordinal);
// Returns the driver's version as CUDA writes it (12080): the one that the program was told, if it
// was told one; else the server's, at most the one that this library was written against, which it
// also is before attach.
int device_driver_version(void);
// Returns the same for the program to know: it stays from then on.
int device_tell_version(void);
// Returns the version of the server's driver, whatever the program was told.
int device_server_version(void);
// Returns the nearest priority that streams of the first device can have.
int device_clamp_priority(int priority);
// Sets the least and the greatest priority of the device's streams; either pointer may be NULL.
void device_priorities(int ordinal, int *least, int *greatest);
// Sets *value to a limit as it is now. CUDA_ERROR_UNSUPPORTED_LIMIT when the device has no such.
CUresult device_limit(int ordinal, CUlimit limit, size_t *value);
// Notes that a limit was set, which the caller has seen to on the server.
void device_set_limit(int ordinal, CUlimit limit, size_t value);
// Sets all limits back to what they were at first, after a reset of the context.
void device_forget_limits(int ordinal);
// Returns how many bytes of the device's memory all limits would take above what they took at first
// if `limit` were at `value`, by the rule that servers count by
// (api-server/executor/commands/limits.cc); UINT64_MAX when that is no number.
uint64_t device_raised(int ordinal, CUlimit limit, size_t value);
// Returns what the server tells of the way from one device to another, where kernels of the first
// can be let into the memory of the second; NULL where they cannot.
const struct peer_device *device_peer(int device, int peer);
// Returns an attribute's value; 0 when the server told none.
int device_attribute(int ordinal, CUdevice_attribute attribute);

#endif
