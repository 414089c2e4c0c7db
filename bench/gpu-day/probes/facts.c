// What the driver says of itself and of its first device.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "probe.h"

CUdevice probe_device(void) {
  CUdevice device;
  const CUresult begun = driver.cuInit(0);
  if (begun) fail("init", "cuInit: %s", probe_result_name(begun));
  int count = 0;
  CHECK(cuDeviceGetCount(&count));
  if (count == 0) fail("device", "the driver has no device");
  CHECK(cuDeviceGet(&device, 0));
  return device;
}

CUdevice probe_context(void) {
  const CUdevice device = probe_device();
  CUcontext context;
  const CUresult made = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (made) fail("context", "%s", probe_result_name(made));
  CHECK(cuCtxSetCurrent(context));
  return device;
}

static const struct {
  const char *name;
  CUdevice_attribute attribute;
} attributes[] = {
    {"compute capability, major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {"compute capability, minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {"compute mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
    {"ECC", CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {"preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
    {"tensor maps", CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED},
    {"shared memory per block, at most", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
};

static void say_uuid(const char *name, const CUuuid *uuid) {
  char text[40] = "";
  for (int i = 0; i < 16; i++)
    snprintf(text + strlen(text), 4, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
             (unsigned char)uuid->bytes[i]);
  say_text(name, text);
}

// Makes no context: a device that is somebody else's can be looked at.
void probe_facts(char **rest) {
  (void)rest;
  const CUdevice device = probe_device();
  int count = 0;
  CHECK(cuDeviceGetCount(&count));
  say_number("devices", count);
  char name[256] = "";
  CHECK(cuDeviceGetName(name, sizeof name, device));
  say_text("name", name);
  // Of an instance in MIG mode the older call tells the GPU's, as documents have it.
  CUuuid uuid;
  CHECK(cuDeviceGetUuid_v2(&uuid, device));
  say_uuid("UUID", &uuid);
  __typeof__(&cuDeviceGetUuid) older;
  *(void **)&older = dlsym(driver.handle, "cuDeviceGetUuid");
  if (older && older(&uuid, device) == CUDA_SUCCESS) say_uuid("UUID by the older call", &uuid);
  size_t bytes = 0;
  CHECK(cuDeviceTotalMem_v2(&bytes, device));
  say_number("MiB", (double)(bytes >> 20));
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    int value = 0;
    if (!driver.cuDeviceGetAttribute(&value, attributes[i].attribute, device))
      say_number(attributes[i].name, value);
  }
}

// Names on stdin, one a line; those that the library does not export come back.
void probe_symbols(char **rest) {
  (void)rest;
  char line[256], missing[16384] = "";
  int asked = 0, absent = 0;
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = '\0';
    if (!*line) continue;
    asked++;
    if (dlsym(driver.handle, line)) continue;
    absent++;
    if (strlen(missing) + strlen(line) + 3 > sizeof missing) continue;
    if (*missing) strcat(missing, " ");
    strcat(missing, line);
  }
  say_number("asked", asked);
  say_number("missing", absent);
  say_text("names", missing);
}

// Whether the device still does what it is told.
void probe_alive(char **rest) {
  (void)rest;
  probe_context();
  launch(probe_function("nothing"), NULL, 0);
  CHECK(cuCtxSynchronize());
  say_text("alive", "yes");
}

void probe_memory_free(char **rest) {
  (void)rest;
  probe_context();
  size_t free_bytes = 0, total = 0;
  CHECK(cuMemGetInfo_v2(&free_bytes, &total));
  say_number("free MiB", (double)free_bytes / (1 << 20));
  say_number("total MiB", (double)total / (1 << 20));
}
