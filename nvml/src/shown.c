#include "shown.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gather.h"
#include "nvml_calls.h"
#include "report.h"
#include "setup/clock.h"
#include "setup/log.h"

// One answer serves the calls of a poll; after a failure a program may ask for long.
#define FRESH_MS 100
#define RETRY_MS 1000

// Devices this process has seen, by UUID: the address of a place here is a handle.
#define PLACES_MAX 64
static struct place {
  uint8_t uuid[16];
  uint8_t part;  // which of several servers has it: they may lead to the same machine
} places[PLACES_MAX];
static unsigned place_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static struct config config;
static char host[64];
static struct gathered shown;
static outboard_DeviceReport *const report = &shown.report;
static nvmlReturn_t failure;          // of the last query
static _Bool asked;                   // whether there was one since nvmlInit
static int64_t asked_at;              // milliseconds
static uint64_t asked_for;            // the session that the query named
static struct shown_device selected;  // by shown_begin_device
static _Atomic uint32_t driver_version;
static _Atomic uint64_t queries, unserved;

const char *shown_host(void) { return host; }
uint32_t shown_driver_version(void) { return atomic_load(&driver_version); }
void shown_end(void) { pthread_mutex_unlock(&lock); }

// ---- the report --------------------------------------------------------------------------------

static uint8_t part_of(unsigned index) {
  return index < report->devices_count ? shown.parts[index]
                                       : shown.other_parts[index - report->devices_count];
}

static _Bool is_at(const struct place *place, unsigned index) {
  return place->part == part_of(index) &&
         memcmp(place->uuid, report_device(report, index)->uuid.bytes, sizeof place->uuid) == 0;
}

static struct place *place_of(unsigned index) {
  for (unsigned i = 0; i < place_count; i++)
    if (is_at(&places[i], index)) return &places[i];
  if (place_count == PLACES_MAX) return NULL;
  struct place *place = &places[place_count++];
  memcpy(place->uuid, report_device(report, index)->uuid.bytes, sizeof place->uuid);
  place->part = part_of(index);
  return place;
}

// What the session counts itself is exact; what the monitor knows of it may be a second old.
static void know_better(const struct companion_device *devices) {
  for (unsigned i = 0; i < report->devices_count; i++) {
    const struct companion_session *session = &devices[i].session;
    report->devices[i].memory_total = session->memory_total;
    report->devices[i].memory_used = session->memory_total - session->memory_free;
  }
  for (unsigned i = 0; i < report->processes_count; i++) {
    outboard_ProcessState *process = &report->processes[i];
    if (process->device < report->devices_count &&
        process->session == devices[process->device].session.session)
      process->memory = report->devices[process->device].memory_used;
  }
}

static void add_shown(outboard_DeviceQuery *query, const uint8_t *uuid) {
  const unsigned room = sizeof query->shown / sizeof *query->shown;
  for (unsigned i = 0; i < query->shown_count; i++)
    if (memcmp(query->shown[i].bytes, uuid, sizeof places->uuid) == 0) return;
  if (query->shown_count == room) return;
  query->shown[query->shown_count].size = sizeof places->uuid;
  memcpy(query->shown[query->shown_count++].bytes, uuid, sizeof places->uuid);
}

static void ask(const struct companion_device *devices, unsigned count) {
  outboard_DeviceQuery query = {0};
  for (unsigned i = 0; i < report->devices_count; i++)
    add_shown(&query, report->devices[i].uuid.bytes);
  // Of which the program has handles.
  for (unsigned i = 0; i < place_count; i++) add_shown(&query, places[i].uuid);
  failure = gather(&config, devices, count, &query, &shown);
  atomic_fetch_add(&queries, 1);
  asked = 1;
  asked_at = clock_ms();
  asked_for = count ? devices[0].session.session : 0;
  if (!failure) atomic_store(&driver_version, report->driver_version);
}

// With the lock.
static nvmlReturn_t refresh(void) {
  static struct companion_device devices[DEVICES_SHOWN];
  unsigned count = session_find(devices);
  uint64_t session = count ? devices[0].session.session : 0;
  int64_t old = clock_ms() - asked_at;
  if (!asked || session != asked_for || old >= (failure ? RETRY_MS : FRESH_MS)) ask(devices, count);
  if (failure) return failure;
  if (count == report->devices_count) know_better(devices);
  return NVML_SUCCESS;
}

nvmlReturn_t shown_report(const outboard_DeviceReport **out) {
  nvmlReturn_t result = refresh();
  *out = report;
  if (!result) return NVML_SUCCESS;
  // It was there when nvmlInit asked.
  return result == NVML_ERROR_DRIVER_NOT_LOADED ? NVML_ERROR_GPU_IS_LOST : result;
}

nvmlDevice_t shown_handle(unsigned index) { return (nvmlDevice_t)place_of(index); }

// ---- the beginning and the end of a call -------------------------------------------------------

nvmlReturn_t shown_begin(void) {
  pthread_mutex_lock(&lock);
  if (users) return NVML_SUCCESS;
  pthread_mutex_unlock(&lock);
  return NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t select_device(nvmlDevice_t handle) {
  struct place *place = (struct place *)handle;
  // A handle may be any number; compared as such, it is only used when it is one of ours.
  uintptr_t offset = (uintptr_t)place - (uintptr_t)places;
  if (offset % sizeof *places || offset / sizeof *places >= place_count)
    return NVML_ERROR_INVALID_ARGUMENT;
  const outboard_DeviceReport *current;
  nvmlReturn_t result = shown_report(&current);
  if (result) return result;
  for (unsigned i = 0; i < report_count(current); i++) {
    if (!is_at(place, i)) continue;
    selected.index = i;
    selected.state = *report_device(current, i);
    return NVML_SUCCESS;
  }
  // The server has it no more, or its tenant may use it no more.
  return NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t shown_begin_device(nvmlDevice_t handle, const struct shown_device **device) {
  nvmlReturn_t result = shown_begin();
  if (result) return result;
  result = select_device(handle);
  if (result) shown_end();
  *device = &selected;
  return result;
}

nvmlReturn_t shown_unserved(int symbol) {
  static _Atomic unsigned char named[NVML_SYMBOL_COUNT];
  atomic_fetch_add(&unserved, 1);
  if (!atomic_exchange(&named[symbol], 1))
    log_warn("%s is not served: the program gets NVML_ERROR_NOT_SUPPORTED (said once)",
             nvml_symbols[symbol]);
  return NVML_ERROR_NOT_SUPPORTED;
}

// ---- nvmlInit and nvmlShutdown -----------------------------------------------------------------

// Another thread may have held the lock, in the middle of anything: the child starts without a
// report.
static void in_child(void) {
  pthread_mutex_init(&lock, NULL);
  query_forked();
  asked = 0;
}

static nvmlReturn_t start(void) {
  static _Bool prepared;
  if (!prepared) {
    log_open();
    session_prepare();
    pthread_atfork(NULL, NULL, in_child);
    prepared = 1;
  }
  switch (config_read(&config)) {
    case CUDA_SUCCESS:
      break;
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return NVML_ERROR_DRIVER_NOT_LOADED;
    default:
      return NVML_ERROR_INVALID_ARGUMENT;
  }
  gethostname(host, sizeof host - 1);
  asked = 0;
  return refresh();
}

nvmlReturn_t shown_start(void) {
  pthread_mutex_lock(&lock);
  nvmlReturn_t result = users ? NVML_SUCCESS : start();
  if (!result) users++;
  pthread_mutex_unlock(&lock);
  return result;
}

nvmlReturn_t shown_stop(void) {
  nvmlReturn_t result = shown_begin();
  if (result) return result;
  if (--users == 0)
    log_info("NVML: %llu queries, %llu calls that are not served",
             (unsigned long long)atomic_load(&queries), (unsigned long long)atomic_load(&unserved));
  shown_end();
  return NVML_SUCCESS;
}
