// Asks the monitor, on a connection of its own that takes no slot and waits in no queue.
#ifndef OUTBOARD_QUERY_H
#define OUTBOARD_QUERY_H

#include "control.pb.h"
#include "nvml_api.h"
#include "setup/config.h"

// Asks the first server that answers. Replaces the report. On anything but NVML_SUCCESS the log
// says why, and the report is empty.
nvmlReturn_t query_ask(const struct config *config, const outboard_DeviceQuery *query,
                       outboard_DeviceReport *report);

// In a child forked while another thread asked: its connection is not ours.
void query_forked(void);

#endif
