// Which devices there are, and what does not change about them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nvml_calls.h"
#include "report.h"
#include "text.h"

struct device_pci {
  unsigned domain, bus, device;
};

// ---- handles -----------------------------------------------------------------------------------

nvmlReturn_t answer_nvmlDeviceGetCount_v2(unsigned int *count) {
  const outboard_DeviceReport *report;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = shown_report(&report);
  if (!result) *count = report->devices_count;
  return result;
}

static nvmlReturn_t give_handle(unsigned index, nvmlDevice_t *device) {
  *device = shown_handle(index);
  return *device ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t answer_nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  const outboard_DeviceReport *report;
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = shown_report(&report);
  if (result) return result;
  return index < report->devices_count ? give_handle(index, device) : NVML_ERROR_INVALID_ARGUMENT;
}

// The first device of which `is_it` says so.
static nvmlReturn_t find(_Bool (*is_it)(const outboard_DeviceState *, const void *),
                         const void *wanted, nvmlDevice_t *device) {
  const outboard_DeviceReport *report;
  if (!wanted || !device) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = shown_report(&report);
  if (result) return result;
  for (unsigned i = 0; i < report_count(report); i++)
    if (is_it(report_device(report, i), wanted)) return give_handle(i, device);
  return NVML_ERROR_NOT_FOUND;
}

// Of a GPU in MIG mode.
static _Bool is_instance(const outboard_DeviceState *device) {
  return device->gpu_uuid.size == sizeof device->gpu_uuid.bytes;
}

static void uuid_text(const outboard_DeviceState *device, char text[NVML_DEVICE_UUID_ASCII_LEN]) {
  const uint8_t *u = device->uuid.bytes;
  snprintf(text, NVML_DEVICE_UUID_ASCII_LEN,
           "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           is_instance(device) ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7],
           u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

static _Bool has_uuid_text(const outboard_DeviceState *device, const void *wanted) {
  char text[NVML_DEVICE_UUID_ASCII_LEN];
  uuid_text(device, text);
  return strcasecmp(text, wanted) == 0;
}

static _Bool has_uuid(const outboard_DeviceState *device, const void *wanted) {
  return memcmp(device->uuid.bytes, wanted, sizeof device->uuid.bytes) == 0;
}

nvmlReturn_t answer_nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  return find(has_uuid_text, uuid, device);
}

nvmlReturn_t answer_nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device) {
  if (!uuid) return NVML_ERROR_INVALID_ARGUMENT;
  if (uuid->version != nvmlUUID_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (uuid->type == NVML_UUID_TYPE_BINARY) return find(has_uuid, uuid->value.bytes, device);
  if (uuid->type != NVML_UUID_TYPE_ASCII || !memchr(uuid->value.str, 0, sizeof uuid->value.str))
    return NVML_ERROR_INVALID_ARGUMENT;
  return find(has_uuid_text, uuid->value.str, device);
}

// ---- PCI ---------------------------------------------------------------------------------------

// [domain:]bus:device[.function], in hexadecimal. False when it is none.
static _Bool parse_pci(const char *text, struct device_pci *pci) {
  unsigned long numbers[3];
  int count = 0;
  const char *at = text;
  for (;;) {
    char *end;
    if (count == 3 || !strchr("0123456789abcdefABCDEF", *at) || !*at) return 0;
    numbers[count++] = strtoul(at, &end, 16);
    at = end;
    if (*at != ':') break;
    at++;
  }
  if (count < 2 || (*at && strcmp(at, ".0") != 0)) return 0;
  const unsigned long *bus = numbers + count - 2;
  *pci = (struct device_pci){count == 3 ? (unsigned)numbers[0] : 0, (unsigned)bus[0],
                             (unsigned)bus[1]};
  return 1;
}

static struct device_pci pci_of(const outboard_DeviceState *device) {
  struct device_pci pci = {0, 0, 0};
  parse_pci(device->pci_bus_id, &pci);
  return pci;
}

static _Bool has_pci(const outboard_DeviceState *device, const void *wanted) {
  const struct device_pci *one = wanted;
  struct device_pci other = pci_of(device);
  return one->domain == other.domain && one->bus == other.bus && one->device == other.device;
}

nvmlReturn_t answer_nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device) {
  struct device_pci pci;
  if (!pciBusId || !parse_pci(pciBusId, &pci)) return NVML_ERROR_INVALID_ARGUMENT;
  return find(has_pci, &pci, device);
}

static void format_pci(struct device_pci pci, const char *format, char *text, size_t size) {
  snprintf(text, size, format, pci.domain, pci.bus, pci.device);
}

// What the structure has had since `end` bytes of it were all.
static nvmlReturn_t give_pci(const outboard_DeviceState *device, nvmlPciInfo_t *out, size_t end) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  struct device_pci pci = pci_of(device);
  nvmlPciInfo_t info = {.domain = pci.domain,
                        .bus = pci.bus,
                        .device = pci.device,
                        .pciDeviceId = device->pci_device_id,
                        .pciSubSystemId = device->pci_subsystem_id};
  format_pci(pci, "%04X:%02X:%02X.0", info.busIdLegacy, sizeof info.busIdLegacy);
  format_pci(pci, "%08X:%02X:%02X.0", info.busId, sizeof info.busId);
  memcpy(out, &info, end);
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetPciInfo(const struct shown_device *device, nvmlPciInfo_t *pci) {
  return give_pci(&device->state, pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
}

nvmlReturn_t answer_nvmlDeviceGetPciInfo_v2(const struct shown_device *device, nvmlPciInfo_t *pci) {
  return give_pci(&device->state, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t answer_nvmlDeviceGetPciInfo_v3(const struct shown_device *device, nvmlPciInfo_t *pci) {
  return give_pci(&device->state, pci, sizeof *pci);
}

nvmlReturn_t answer_nvmlDeviceGetPciInfoExt(const struct shown_device *device,
                                            nvmlPciInfoExt_t *out) {
  // 3D controllers of NVIDIA: displays (3) without a screen (2).
  enum { DISPLAY = 3, CONTROLLER_3D = 2 };
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != nvmlPciInfoExt_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  struct device_pci pci = pci_of(&device->state);
  *out = (nvmlPciInfoExt_t){.version = nvmlPciInfoExt_v1,
                            .domain = pci.domain,
                            .bus = pci.bus,
                            .device = pci.device,
                            .pciDeviceId = device->state.pci_device_id,
                            .pciSubSystemId = device->state.pci_subsystem_id,
                            .baseClass = DISPLAY,
                            .subClass = CONTROLLER_3D};
  format_pci(pci, "%08X:%02X:%02X.0", out->busId, sizeof out->busId);
  return NVML_SUCCESS;
}

// ---- what it is --------------------------------------------------------------------------------

nvmlReturn_t answer_nvmlDeviceGetName(const struct shown_device *device, char *name,
                                      unsigned int length) {
  return text_give(name, length, device->state.name);
}

nvmlReturn_t answer_nvmlDeviceGetUUID(const struct shown_device *device, char *uuid,
                                      unsigned int length) {
  char text[NVML_DEVICE_UUID_ASCII_LEN];
  uuid_text(&device->state, text);
  return text_give(uuid, length, text);
}

nvmlReturn_t answer_nvmlDeviceIsMigDeviceHandle(const struct shown_device *device,
                                                unsigned int *isMigDevice) {
  if (!isMigDevice) return NVML_ERROR_INVALID_ARGUMENT;
  *isMigDevice = is_instance(&device->state);
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetIndex(const struct shown_device *device, unsigned int *index) {
  if (!index) return NVML_ERROR_INVALID_ARGUMENT;
  *index = device->index;
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetCudaComputeCapability(const struct shown_device *device,
                                                       int *major, int *minor) {
  if (!major || !minor) return NVML_ERROR_INVALID_ARGUMENT;
  *major = (int)device->state.compute_major;
  *minor = (int)device->state.compute_minor;
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetArchitecture(const struct shown_device *device,
                                              nvmlDeviceArchitecture_t *arch) {
  // From which compute capability on. Newer ones than the last are not known.
  static const struct {
    unsigned capability, architecture;
  } from[] = {{100, NVML_DEVICE_ARCH_BLACKWELL}, {90, NVML_DEVICE_ARCH_HOPPER},
              {89, NVML_DEVICE_ARCH_ADA},        {80, NVML_DEVICE_ARCH_AMPERE},
              {75, NVML_DEVICE_ARCH_TURING},     {70, NVML_DEVICE_ARCH_VOLTA},
              {60, NVML_DEVICE_ARCH_PASCAL},     {50, NVML_DEVICE_ARCH_MAXWELL},
              {30, NVML_DEVICE_ARCH_KEPLER}};
  if (!arch) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned capability = device->state.compute_major * 10 + device->state.compute_minor;
  *arch = NVML_DEVICE_ARCH_UNKNOWN;
  if (device->state.compute_major > 12) return NVML_SUCCESS;
  for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
    if (capability < from[i].capability) continue;
    *arch = from[i].architecture;
    break;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetBrand(const struct shown_device *device, nvmlBrandType_t *type) {
  if (!type) return NVML_ERROR_INVALID_ARGUMENT;
  *type = device->state.has_brand ? (nvmlBrandType_t)device->state.brand : NVML_BRAND_UNKNOWN;
  return NVML_SUCCESS;
}
