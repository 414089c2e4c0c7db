// What this process is shown: the last report of the monitor, asked for again when it has become
// old, with what the session of the process itself knows better. One lock guards everything.
#ifndef OUTBOARD_SHOWN_H
#define OUTBOARD_SHOWN_H

#include <stdint.h>

#include "control.pb.h"
#include "nvml_api.h"

struct shown_device {
  // Of the report's devices; behind them come those that only a handle is left of, from before the
  // process had a session.
  unsigned index;
  outboard_DeviceState state;
};

// nvmlInit and nvmlShutdown.
nvmlReturn_t shown_start(void);
nvmlReturn_t shown_stop(void);

// Take the lock, unless they fail. `device` is valid until shown_end().
nvmlReturn_t shown_begin(void);
nvmlReturn_t shown_begin_device(nvmlDevice_t handle, const struct shown_device **device);
void shown_end(void);

// With the lock: a report not older than what is kept, or why there is none.
nvmlReturn_t shown_report(const outboard_DeviceReport **report);
// With the lock: the handle of a device of the report (report_device). It stays that of the device.
nvmlDevice_t shown_handle(unsigned index);
// Of this machine, as sessions name it.
const char *shown_host(void);
// Without the lock: of the last report; 0: there was none.
uint32_t shown_driver_version(void);

// A call that is not served, by its place in nvml_symbols.
nvmlReturn_t shown_unserved(int symbol);

#endif
