// Start, look-ups, the one device and its attributes.
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi_lookup.h"
#include "abi_proc_address.h"
#include "abi_refusal.h"
#include "abi_result.h"
#include "abi_tables.h"
#include "abi_version.h"
#include "null.h"

static _Atomic bool initialised;

void null_log(const char *format, ...) {
  if (!getenv("NULL_DEVICE_LOG")) return;
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  fprintf(stderr, "null device: %s\n", line);
}

CUresult cuInit(unsigned int flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  *version = ABI_DRIVER_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  return abi_get_proc_address(symbol, function, version, flags, status);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
  return abi_get_proc_address(symbol, function, version, flags, NULL);
}

CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  return abi_get_export_table(table, id);
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = abi_result_name(error);
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **sentence) {
  *sentence = abi_result_sentence(error);
  return *sentence ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int abi_unsupported(int entry) {
  null_log("%s is not supported", abi_entries[entry].name);
  return abi_refusal(abi_entries[entry].name);
}

// ---- the device --------------------------------------------------------------------------------

static const CUuuid uuid = {"null device 0"};

CUresult cuDeviceGetCount(int *count) {
  *count = 1;
  return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  (void)device;
  snprintf(name, (size_t)length, "null device");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *result, CUdevice device) {
  (void)device;
  *result = uuid;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid *result, CUdevice device) {
  return cuDeviceGetUuid_v2(result, device);
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  (void)device;
  snprintf(id, (size_t)length, "0000:00:00.0");
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  (void)device;
  *bytes = NULL_DEVICE_MEMORY;
  return CUDA_SUCCESS;
}

// Limits that programs and guest libraries check launches against. All others are features, and
// this device has none of them.
static const struct {
  CUdevice_attribute attribute;
  int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7FFFFFFF},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 96 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 96 << 10},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 << 10},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7FFFFFFF},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 128},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
};

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  (void)device;
  if (attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
    if (attributes[i].attribute == attribute) *value = attributes[i].value;
  return CUDA_SUCCESS;
}

// ---- what cudart's private tables need ---------------------------------------------------------

static int driver_version(void) { return ABI_DRIVER_VERSION; }
static int device_count(void) { return initialised ? 1 : 0; }

static void device_identity(int ordinal, struct abi_device_identity *identity) {
  (void)ordinal;
  memset(identity, 0, sizeof *identity);
  identity->uuid = uuid;
}

static CUresult primary_context(CUcontext *context, CUdevice device) {
  return cuDevicePrimaryCtxRetain(context, device);
}

static void log_line(enum abi_log_level level, const char *line) {
  (void)level;
  null_log("%s", line);
}

const struct abi_host abi_host = {
    .driver_version = driver_version,
    .device_count = device_count,
    .device_identity = device_identity,
    .primary_context = primary_context,
    .current_context = null_current,
    .log = log_line,
};
