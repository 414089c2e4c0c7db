// The library itself, versions, and names of processes.
#include <stdio.h>
#include <string.h>

#include "abi_version.h"
#include "nvml_calls.h"
#include "process.h"
#include "text.h"

nvmlReturn_t answer_nvmlInit_v2(void) { return shown_start(); }

nvmlReturn_t answer_nvmlInitWithFlags(unsigned int flags) {
  (void)flags;
  return shown_start();
}

nvmlReturn_t answer_nvmlShutdown(void) { return shown_stop(); }

nvmlReturn_t answer_nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
  const outboard_DeviceReport *report;
  nvmlReturn_t result = shown_report(&report);
  if (result) return result;
  if (*report->nvml_version) return text_give(version, length, report->nvml_version);
  char ours[64];
  snprintf(ours, sizeof ours, "%d.%s", NVML_API_VERSION, report->server_version);
  return text_give(version, length, ours);
}

nvmlReturn_t answer_nvmlSystemGetDriverVersion(char *version, unsigned int length) {
  const outboard_DeviceReport *report;
  nvmlReturn_t result = shown_report(&report);
  if (result) return result;
  const char *nvidia = report->nvidia_driver;
  return text_give(version, length, *nvidia ? nvidia : report->server_version);
}

// As cuDriverGetVersion has it.
nvmlReturn_t answer_nvmlSystemGetCudaDriverVersion_v2(int *version) {
  if (!version) return NVML_ERROR_INVALID_ARGUMENT;
  int server = (int)shown_driver_version();
  *version = server && server < ABI_DRIVER_VERSION ? server : ABI_DRIVER_VERSION;
  return NVML_SUCCESS;
}

void process_name(const outboard_ProcessState *process, char *text, size_t size) {
  if (strcmp(process->host, shown_host()) == 0)
    snprintf(text, size, "%s", process->program);
  else
    snprintf(text, size, "%s (%s)", process->program, process->host);
}

nvmlReturn_t answer_nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
  const outboard_DeviceReport *report;
  nvmlReturn_t result = shown_report(&report);
  if (result) return result;
  const outboard_ProcessState *found = NULL;
  for (unsigned i = 0; i < report->processes_count; i++) {
    const outboard_ProcessState *process = &report->processes[i];
    if (process->pid != pid) continue;
    // Machines number their processes each for itself: ours come first.
    if (!found || strcmp(process->host, shown_host()) == 0) found = process;
  }
  if (!found) return NVML_ERROR_NOT_FOUND;
  char text[sizeof found->program + sizeof found->host + 4];
  process_name(found, text, sizeof text);
  return text_give(name, length, text);
}
