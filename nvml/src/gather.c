#include "gather.h"

#include <string.h>

// One at a time, by the lock of shown.c.
static struct gathered all;
static struct config one;
static outboard_DeviceReport part;

// Puts as many as there is room for behind those that are there. How many.
static unsigned put_behind(outboard_DeviceState *devices, pb_size_t *count, uint8_t *parts,
                           const outboard_DeviceState *more, unsigned more_count, unsigned number) {
  unsigned put = 0;
  for (; put < more_count && *count < DEVICES_SHOWN; put++) {
    parts[*count] = (uint8_t)number;
    devices[(*count)++] = more[put];
  }
  return put;
}

// Its devices come behind those that are there, and its others behind the others.
static void append(unsigned number) {
  outboard_DeviceReport *report = &all.report;
  const unsigned before = report->devices_count, others_before = report->others_count;
  if (!before) {
    *report = part;
    return;
  }
  if (part.driver_version < report->driver_version) report->driver_version = part.driver_version;
  const unsigned put = put_behind(report->devices, &report->devices_count, all.parts, part.devices,
                                  part.devices_count, number);
  const unsigned others_put = put_behind(report->others, &report->others_count, all.other_parts,
                                         part.others, part.others_count, number);
  for (unsigned i = 0; i < report->processes_count; i++)
    if (report->processes[i].device >= before) report->processes[i].device += put;
  const unsigned room = sizeof report->processes / sizeof *report->processes;
  for (unsigned i = 0; i < part.processes_count && report->processes_count < room; i++) {
    outboard_ProcessState process = part.processes[i];
    if (process.device < part.devices_count) {
      if (process.device >= put) continue;
      process.device += before;
    } else {
      process.device -= part.devices_count;
      if (process.device >= others_put) continue;
      process.device += report->devices_count + others_before;
    }
    report->processes[report->processes_count++] = process;
  }
}

static nvmlReturn_t ask(const struct server_name *server, unsigned gpus,
                        const outboard_DeviceQuery *query) {
  one.server_count = 1;
  one.servers[0] = *server;
  one.gpus = gpus;
  return query_ask(&one, query, &part);
}

// Of the servers that lead to the devices of the session.
static nvmlReturn_t ask_session(const struct companion_device *devices, unsigned count,
                                outboard_DeviceQuery *query) {
  unsigned number = 0;
  for (unsigned i = 0; i < count; i++) {
    if (devices[i].first != i) continue;
    unsigned gpus = 0;
    for (unsigned j = i; j < count; j++) gpus += devices[j].first == i;
    query->session = devices[i].session.session;
    nvmlReturn_t result = ask(&devices[i].server, gpus, query);
    if (result) return result;
    append(number++);
  }
  return NVML_SUCCESS;
}

// Of those that it would be given devices by; who cannot be had is stood in for.
static nvmlReturn_t ask_named(const struct config *config, const outboard_DeviceQuery *query) {
  unsigned parts = config_parts(config), spare = parts;
  for (unsigned number = 0; number < parts; number++) {
    unsigned gpus = config_gpus_of(config, number);
    nvmlReturn_t result = ask(&config->servers[number], gpus, query);
    while (result && spare < (unsigned)config->server_count)
      result = ask(&config->servers[spare++], gpus, query);
    if (result) return result;
    append(number);
  }
  return NVML_SUCCESS;
}

nvmlReturn_t gather(const struct config *config, const struct companion_device *devices,
                    unsigned count, const outboard_DeviceQuery *query, struct gathered *gathered) {
  outboard_DeviceQuery question = *query;
  memset(&all, 0, sizeof all);
  one = *config;
  nvmlReturn_t result =
      count ? ask_session(devices, count, &question) : ask_named(config, &question);
  if (!result) *gathered = all;
  return result;
}
