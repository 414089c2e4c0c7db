// What the monitor answers a DeviceQuery with, decoded without a socket. Any bytes at all are safe.
#ifndef OUTBOARD_REPORT_H
#define OUTBOARD_REPORT_H

#include <stdint.h>

#include "control.pb.h"

enum report_kind { REPORT_BAD, REPORT_DEVICES, REPORT_REFUSAL };

// The message behind a preface. On REPORT_BAD the log says what is wrong.
enum report_kind report_read(const uint8_t *preface, const uint8_t *message, uint32_t length,
                             outboard_DeviceReport *report, outboard_Refusal *refusal);

// The devices of a report, and behind them those that the process was shown before and still has
// handles of: how many, and the one with `index`, which is below that.
unsigned report_count(const outboard_DeviceReport *report);
const outboard_DeviceState *report_device(const outboard_DeviceReport *report, unsigned index);

#endif
