// A monitor in a thread that answers queries and nothing else.
#ifndef TEST_MONITOR_H
#define TEST_MONITOR_H

#include <stddef.h>
#include <stdint.h>

#include "control.pb.h"

// Listens on a free port of this machine and names it in OUTBOARD_SERVER.
void monitor_start(void);
// Nobody listens any more.
void monitor_stop(void);

// What it answers from now on: a report, a refusal, or these bytes behind the preface.
void monitor_report(const outboard_DeviceReport *report);
void monitor_refuse(const char *code, int32_t result);
void monitor_say(const void *message, size_t size, uint32_t version);

// Queries answered so far, and the last Hello.
unsigned monitor_queries(void);
const outboard_Hello *monitor_hello(void);

// An Answer with the report in it, as the monitor would encode it. Returns its length.
size_t monitor_encode(const outboard_DeviceReport *report, uint8_t *out, size_t size);

// A report of `devices` devices, the first with a session of 100 MiB.
void monitor_usual(outboard_DeviceReport *report, unsigned devices);

#endif
