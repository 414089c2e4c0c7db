// The server's answer to a Hello, on any bytes: preface, message, and what is taken from a Welcome.
#include <string.h>

#include "session/device.h"
#include "setup/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static outboard_Answer answer;
  static struct device devices[DEVICES_MAX];
  static const struct server_name server = {.host = "gpu1", .port = "4460"};
  uint32_t length;
  if (size < WIRE_PREFACE_BYTES || !control_read_preface(&server, data, &length)) return 0;
  if (length > size - WIRE_PREFACE_BYTES) length = (uint32_t)(size - WIRE_PREFACE_BYTES);
  if (control_read_answer(data, data + WIRE_PREFACE_BYTES, length, &answer)) return 0;
  if (answer.which_body != outboard_Answer_welcome_tag) return 0;
  const outboard_Welcome *welcome = &answer.body.welcome;
  control_devices(welcome, devices);
  device_start(devices, (int)welcome->devices_count, "0,GPU-0", welcome->driver_version);
  for (int i = 0; i < device_count(); i++)
    if (strlen(device_get(i)->name) >= sizeof device_get(i)->name) __builtin_trap();
  return 0;
}
