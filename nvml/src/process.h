// How processes are named.
#ifndef OUTBOARD_NVML_PROCESS_H
#define OUTBOARD_NVML_PROCESS_H

#include <stddef.h>

#include "control.pb.h"

// The program, and its host where that is not this machine.
void process_name(const outboard_ProcessState *process, char *text, size_t size);

#endif
