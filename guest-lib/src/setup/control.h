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

// Fills a Hello with who asks and with what the environment asks for.
void control_hello(outboard_Hello *hello, const struct config *config);

// Writes preface and Hello into `out`, which has WIRE_CONTROL_MAX bytes. Returns their length, or 0
// after what is wrong is in the log.
size_t control_write_hello(uint8_t *out, const outboard_Hello *hello);

// Sets *length to how many bytes the message behind a preface has. False, and a line in the log,
// when it is no preface of ours; the line names the server.
_Bool control_read_preface(const struct server_name *server, const uint8_t *preface,
                           uint32_t *length);

// Decodes the answer in a preface and its message: Queued, Welcome or Refusal. For anything else it
// logs what is wrong and returns the error that the program gets.
CUresult control_read_answer(const uint8_t *preface, const uint8_t *message, uint32_t length,
                             outboard_Answer *answer);

// Returns what sizes and addresses of memory are multiples of, in bytes: a power of two.
uint64_t control_granularity(const outboard_Welcome *welcome);
// Reads the devices of a Welcome, as many as it has (devices_count).
void control_devices(const outboard_Welcome *welcome, struct device devices[DEVICES_MAX]);

#endif
