// The monitor's answer to a query, on any bytes: preface, message, and what is read from a report.
#include <string.h>

#include "report.h"
#include "setup/control.h"
#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static outboard_DeviceReport report;
  static outboard_Refusal refusal;
  static const struct server_name server = {.host = "gpu1", .port = "4460"};
  uint32_t length;
  if (size < WIRE_PREFACE_BYTES || !control_read_preface(&server, data, &length)) return 0;
  if (length > size - WIRE_PREFACE_BYTES) length = (uint32_t)(size - WIRE_PREFACE_BYTES);
  if (report_read(data, data + WIRE_PREFACE_BYTES, length, &report, &refusal) != REPORT_DEVICES)
    return 0;
  for (unsigned i = 0; i < report_count(&report); i++) {
    const outboard_DeviceState *device = report_device(&report, i);
    if (strlen(device->name) >= sizeof device->name) __builtin_trap();
    if (device->memory_used > device->memory_total) __builtin_trap();
  }
  for (unsigned i = 0; i < report.processes_count; i++) {
    const outboard_ProcessState *process = &report.processes[i];
    if (process->device >= report_count(&report)) __builtin_trap();
    if (strlen(process->host) >= sizeof process->host) __builtin_trap();
  }
  return 0;
}
