// The report of all servers that a program's devices are on, with the devices in the order in which
// CUDA numbers them.
#ifndef OUTBOARD_GATHER_H
#define OUTBOARD_GATHER_H

#include "query.h"
#include "session.h"

struct gathered {
  outboard_DeviceReport report;
  uint8_t parts[DEVICES_SHOWN];        // by device: which of the servers has it
  uint8_t other_parts[DEVICES_SHOWN];  // the same of the others
};

// For a program that has these devices, or none yet; `query` names those that it was shown. On
// anything but NVML_SUCCESS the log says why, and `gathered` is as it was.
nvmlReturn_t gather(const struct config *config, const struct companion_device *devices,
                    unsigned count, const outboard_DeviceQuery *query, struct gathered *gathered);

#endif
