#include "setup/version.h"

#include <errno.h>
#include <pb_decode.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "setup/config.h"
#include "setup/control.h"
#include "setup/dial.h"
#include "setup/environment.h"
#include "setup/log.h"
#include "wire.h"

// Programs that only link a CUDA runtime ask, too: they are not kept for a server that is silent.
#define PATIENCE_MS 1000
// Answer.report and DeviceReport.driver_version. The rest of a report is passed over: a server of
// before DeviceQuery.version_only sends all of it.
#define REPORT_TAG 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int known = -1;

// Too large for the stack of a small thread; with the lock held.
static struct config config, one;
static outboard_Hello hello;
static uint8_t message[WIRE_CONTROL_MAX];

// The version in the report's bytes; 0: it has none.
static int read_report(pb_istream_t *report) {
  uint64_t version = 0;
  for (;;) {
    pb_wire_type_t wire;
    uint32_t tag;
    bool end;
    if (!pb_decode_tag(report, &wire, &tag, &end))
      return end && version <= 1000000 ? (int)version : 0;
    if (wire == PB_WT_VARINT && tag == outboard_DeviceReport_driver_version_tag) {
      if (!pb_decode_varint(report, &version)) return 0;
    } else if (!pb_skip_field(report, wire)) {
      return 0;
    }
  }
}

static int read_answer(const uint8_t *preface, uint32_t length) {
  uint32_t protocol;
  memcpy(&protocol, preface + 8, 4);
  if (protocol != WIRE_PROTOCOL) return 0;
  pb_istream_t answer = pb_istream_from_buffer(message, length);
  for (;;) {
    pb_wire_type_t wire;
    uint32_t tag;
    bool end;
    if (!pb_decode_tag(&answer, &wire, &tag, &end)) return 0;
    if (wire == PB_WT_STRING && tag == REPORT_TAG) {
      pb_istream_t report;
      return pb_make_string_substream(&answer, &report) ? read_report(&report) : 0;
    }
    if (!pb_skip_field(&answer, wire)) return 0;
  }
}

static int exchange(int fd, struct tls *tls, const struct server_name *server) {
  uint8_t preface[WIRE_PREFACE_BYTES];
  uint32_t length;
  const size_t size = control_write_hello(message, &hello);
  if (!size || dial_write(fd, tls, message, size, PATIENCE_MS) ||
      dial_read(fd, tls, preface, sizeof preface, PATIENCE_MS) ||
      !control_read_preface(server, preface, &length) ||
      dial_read(fd, tls, message, length, PATIENCE_MS))
    return 0;
  return read_answer(preface, length);
}

static int ask(const struct server_name *named) {
  one = config;
  one.server_count = 1;
  one.servers[0] = *named;
  if (one.connect_timeout_ms > PATIENCE_MS) one.connect_timeout_ms = PATIENCE_MS;
  control_hello(&hello, &one);
  hello.has_query = 1;
  memset(&hello.query, 0, sizeof hello.query);
  hello.query.version_only = 1;
  hello.window_size = 1;  // what a server that does not know of queries refuses
  const struct server_name *server;
  struct tls *tls;
  const int fd = dial(&one, &server, &tls);
  if (fd < 0) return 0;
  const int version = exchange(fd, tls, server);
  tls_close(tls);
  close(fd);
  return version;
}

// Those that the program's GPUs would come from: as many as answer, in the order of their names.
static int ask_servers(void) {
  const char *visible = environment_or_empty("CUDA_VISIBLE_DEVICES");
  if (visible && !*visible) return 0;
  if (!environment("OUTBOARD_SERVER") || config_read(&config)) return 0;
  int oldest = 0;
  unsigned parts = config_parts(&config);
  for (int i = 0; i < config.server_count && parts; i++) {
    const int version = ask(&config.servers[i]);
    if (!version) continue;
    parts--;
    if (!oldest || version < oldest) oldest = version;
  }
  return oldest;
}

// Another thread of the parent may have been asking: its child asks by itself.
static void forked(void) { pthread_mutex_init(&lock, NULL); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, forked); }

int version_of_servers(void) {
  int version = atomic_load(&known);
  if (version >= 0) return version;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const int error = errno;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&lock);
  version = atomic_load(&known);
  if (version < 0) {
    log_hushed = 1;
    version = ask_servers();
    log_hushed = 0;
    atomic_store(&known, version);
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return version;
}
