#include "text.h"

#include <string.h>

#include "nvml_calls.h"

nvmlReturn_t text_give(char *buffer, unsigned int length, const char *text) {
  if (!buffer) return NVML_ERROR_INVALID_ARGUMENT;
  size_t size = strlen(text) + 1;
  if (size > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(buffer, text, size);
  return NVML_SUCCESS;
}

static const char *const sentences[] = {
    [NVML_SUCCESS] = "Success",
    [NVML_ERROR_UNINITIALIZED] = "nvmlInit has not been called",
    [NVML_ERROR_INVALID_ARGUMENT] = "Invalid argument",
    [NVML_ERROR_NOT_SUPPORTED] = "Not supported",
    [NVML_ERROR_NO_PERMISSION] = "No permission",
    [NVML_ERROR_ALREADY_INITIALIZED] = "Initialized already",
    [NVML_ERROR_NOT_FOUND] = "Not found",
    [NVML_ERROR_INSUFFICIENT_SIZE] = "The buffer is too small",
    [NVML_ERROR_INSUFFICIENT_POWER] = "External power is missing",
    [NVML_ERROR_DRIVER_NOT_LOADED] = "No GPU server could be asked (OUTBOARD_LOG=error says why)",
    [NVML_ERROR_TIMEOUT] = "Timed out",
    [NVML_ERROR_IRQ_ISSUE] = "An interrupt problem of the GPU",
    [NVML_ERROR_LIBRARY_NOT_FOUND] = "A library was not found",
    [NVML_ERROR_FUNCTION_NOT_FOUND] = "The library has no such function",
    [NVML_ERROR_CORRUPTED_INFOROM] = "The infoROM is corrupted",
    [NVML_ERROR_GPU_IS_LOST] = "The GPU is lost",
    [NVML_ERROR_RESET_REQUIRED] = "The GPU must be reset",
    [NVML_ERROR_OPERATING_SYSTEM] = "An error of the operating system",
    [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Library and GPU server are of different releases",
    [NVML_ERROR_IN_USE] = "In use",
    [NVML_ERROR_MEMORY] = "Out of memory",
    [NVML_ERROR_NO_DATA] = "No data",
    [NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = "Not possible for a vGPU with ECC",
    [NVML_ERROR_INSUFFICIENT_RESOURCES] = "Out of resources",
    [NVML_ERROR_FREQ_NOT_SUPPORTED] = "The frequency is not supported",
    [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "The version of an argument is not known",
    [NVML_ERROR_DEPRECATED] = "Deprecated",
    [NVML_ERROR_NOT_READY] = "Not ready",
    [NVML_ERROR_GPU_NOT_FOUND] = "No GPU was found",
    [NVML_ERROR_INVALID_STATE] = "Not possible in this state",
    [NVML_ERROR_RESET_TYPE_NOT_SUPPORTED] = "This kind of reset is not supported",
};

const char *answer_nvmlErrorString(nvmlReturn_t result) {
  size_t count = sizeof sentences / sizeof *sentences;
  return (size_t)result < count && sentences[result] ? sentences[result] : "Unknown error";
}
