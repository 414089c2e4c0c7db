#include "query.h"

#include <string.h>
#include <unistd.h>

#include "report.h"
#include "setup/control.h"
#include "setup/dial.h"
#include "setup/log.h"
#include "wire.h"

// One at a time, by the lock of shown.c; too large for the stack of a small thread.
static outboard_Hello hello;
static outboard_Refusal refusal;
static uint8_t message[WIRE_CONTROL_MAX];
static int fd = -1;
static struct tls *tls;

static nvmlReturn_t refused(void) {
  log_error("the server refused (%s): %s. %s", refusal.code, refusal.sentence, refusal.remedy);
  switch ((CUresult)refusal.result) {
    case CUDA_ERROR_NOT_PERMITTED:
      return NVML_ERROR_NO_PERMISSION;
    case CUDA_ERROR_INVALID_DEVICE:
      return NVML_ERROR_GPU_NOT_FOUND;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    default:
      return NVML_ERROR_DRIVER_NOT_LOADED;
  }
}

static nvmlReturn_t exchange(const struct server_name *server, size_t size, int timeout_ms,
                             outboard_DeviceReport *report) {
  uint8_t preface[WIRE_PREFACE_BYTES];
  uint32_t length;
  int error = dial_write(fd, tls, message, size, timeout_ms);
  if (!error) error = dial_read(fd, tls, preface, sizeof preface, timeout_ms);
  if (error) {
    char where[SERVER_TEXT];
    server_write(server, where);
    log_error("no answer from %s: %s. Is it an Outboard server, and the right port?", where,
              strerror(error));
    return NVML_ERROR_DRIVER_NOT_LOADED;
  }
  if (!control_read_preface(server, preface, &length)) return NVML_ERROR_DRIVER_NOT_LOADED;
  error = dial_read(fd, tls, message, length, timeout_ms);
  if (error) {
    log_error("the server's answer ended early: %s", strerror(error));
    return NVML_ERROR_DRIVER_NOT_LOADED;
  }
  switch (report_read(preface, message, length, report, &refusal)) {
    case REPORT_DEVICES:
      return NVML_SUCCESS;
    case REPORT_REFUSAL:
      return refused();
    default:
      return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
  }
}

nvmlReturn_t query_ask(const struct config *config, const outboard_DeviceQuery *query,
                       outboard_DeviceReport *report) {
  control_hello(&hello, config);
  hello.has_query = 1;
  hello.query = *query;
  hello.window_size = 1;  // what a server that does not know of queries refuses
  size_t size = control_write_hello(message, &hello);
  nvmlReturn_t result = NVML_ERROR_DRIVER_NOT_LOADED;
  const struct server_name *server;
  if (size) fd = dial(config, &server, &tls);
  if (size && fd >= 0) {
    log_debug("asks %s%s about the devices", *server->port ? "" : "unix:", server->host);
    result = exchange(server, size, (int)config->connect_timeout_ms, report);
    tls_close(tls);
    tls = NULL;
    close(fd);
    fd = -1;
  }
  if (result) memset(report, 0, sizeof *report);
  return result;
}

void query_forked(void) {
  if (fd >= 0) close(fd);
  fd = -1;
}
