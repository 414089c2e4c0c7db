// The messages of attach (proto/control.proto), without a socket. Any bytes at all are safe input.
#ifndef OUTBOARD_CONTROL_H
#define OUTBOARD_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "control.pb.h"
#include "cuda_driver.h"
#include "setup/config.h"
#include "setup/device_description.h"
#include "wire.h"

// Who asks, and what the environment asks for.
void control_hello(outboard_Hello *hello, const struct config *config);

// Preface and Hello in `out`, WIRE_CONTROL_MAX bytes. Returns their length, 0 after logging why
// not.
size_t control_write_hello(uint8_t *out, const outboard_Hello *hello);

// How long the message behind a preface is. False, and a line in the log, when it is none.
_Bool control_read_preface(const uint8_t *preface, uint32_t *length);

// The answer in a preface and its message: Queued, Welcome or Refusal. On anything else logs what
// is wrong and returns the CUresult the program gets.
CUresult control_read_answer(const uint8_t *preface, const uint8_t *message, uint32_t length,
                             outboard_Answer *answer);

// The devices of a Welcome.
void control_devices(const outboard_Welcome *welcome, struct device devices[DEVICES_MAX]);

#endif
