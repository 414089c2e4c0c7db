#include "monitor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "wire.h"

#define REPORT_TAG 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int listener = -1;
static pthread_t thread;
static uint8_t answer[WIRE_CONTROL_MAX];
static size_t answer_size;
static uint32_t answer_version = WIRE_PROTOCOL;
static unsigned queries;
static outboard_Hello hello;

static _Bool read_all(int fd, void *bytes, size_t size) {
  for (char *at = bytes; size;) {
    ssize_t got = recv(fd, at, size, 0);
    if (got <= 0) return 0;
    at += got;
    size -= (size_t)got;
  }
  return 1;
}

static void serve(int fd) {
  static uint8_t message[WIRE_CONTROL_MAX];
  uint8_t preface[WIRE_PREFACE_BYTES];
  uint32_t length;
  if (!read_all(fd, preface, sizeof preface)) return;
  memcpy(&length, preface + 12, 4);
  if (length > sizeof message || !read_all(fd, message, length)) return;
  pthread_mutex_lock(&lock);
  pb_istream_t stream = pb_istream_from_buffer(message, length);
  memset(&hello, 0, sizeof hello);
  if (!pb_decode(&stream, outboard_Hello_fields, &hello)) abort();
  queries++;
  uint32_t size = (uint32_t)answer_size;
  memcpy(preface + 8, &answer_version, 4);
  memcpy(preface + 12, &size, 4);
  struct iovec parts[2] = {{preface, sizeof preface}, {answer, answer_size}};
  struct msghdr both = {.msg_iov = parts, .msg_iovlen = 2};
  ssize_t sent = sendmsg(fd, &both, MSG_NOSIGNAL);
  (void)sent;
  pthread_mutex_unlock(&lock);
}

static void *run(void *unused) {
  (void)unused;
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) return NULL;
    serve(fd);
    close(fd);
  }
}

void monitor_start(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0)
    abort();
  getsockname(listener, (struct sockaddr *)&address, &size);
  char name[32];
  snprintf(name, sizeof name, "127.0.0.1:%u", ntohs(address.sin_port));
  setenv("OUTBOARD_SERVER", name, 1);
  queries = 0;
  if (pthread_create(&thread, NULL, run, NULL) != 0) abort();
}

void monitor_stop(void) {
  if (listener < 0) return;
  shutdown(listener, SHUT_RDWR);
  pthread_join(thread, NULL);
  close(listener);
  listener = -1;
}

static size_t encode(uint32_t tag, const pb_msgdesc_t *type, const void *part, uint8_t *out,
                     size_t size) {
  pb_ostream_t stream = pb_ostream_from_buffer(out, size);
  if (!pb_encode_tag(&stream, PB_WT_STRING, tag) || !pb_encode_submessage(&stream, type, part))
    abort();
  return stream.bytes_written;
}

size_t monitor_encode(const outboard_DeviceReport *report, uint8_t *out, size_t size) {
  return encode(REPORT_TAG, outboard_DeviceReport_fields, report, out, size);
}

void monitor_report(const outboard_DeviceReport *report) {
  pthread_mutex_lock(&lock);
  answer_size = monitor_encode(report, answer, sizeof answer);
  answer_version = WIRE_PROTOCOL;
  pthread_mutex_unlock(&lock);
}

void monitor_refuse(const char *code, int32_t result) {
  outboard_Refusal refusal = {.result = result};
  strcpy(refusal.code, code);
  strcpy(refusal.sentence, "no");
  strcpy(refusal.remedy, "Ask again.");
  pthread_mutex_lock(&lock);
  answer_size =
      encode(outboard_Answer_refusal_tag, outboard_Refusal_fields, &refusal, answer, sizeof answer);
  answer_version = WIRE_PROTOCOL;
  pthread_mutex_unlock(&lock);
}

void monitor_say(const void *message, size_t size, uint32_t version) {
  pthread_mutex_lock(&lock);
  memcpy(answer, message, size);
  answer_size = size;
  answer_version = version;
  pthread_mutex_unlock(&lock);
}

unsigned monitor_queries(void) {
  pthread_mutex_lock(&lock);
  unsigned count = queries;
  pthread_mutex_unlock(&lock);
  return count;
}

const outboard_Hello *monitor_hello(void) { return &hello; }

void monitor_usual(outboard_DeviceReport *report, unsigned devices) {
  memset(report, 0, sizeof *report);
  strcpy(report->server_version, "0.1.0");
  report->driver_version = 12080;
  report->devices_count = (pb_size_t)devices;
  for (unsigned i = 0; i < devices; i++) {
    outboard_DeviceState *device = &report->devices[i];
    snprintf(device->name, sizeof device->name, "Test Device %u", i);
    device->uuid.size = 16;
    memset(device->uuid.bytes, (int)(0xa0 + i), 16);
    snprintf(device->pci_bus_id, sizeof device->pci_bus_id, "0000:%02x:00.0", 0x1a + i);
    device->compute_major = 8;
    device->compute_minor = 9;
    device->memory_total = 1ull << 30;
  }
  report->devices[0].memory_used = 100ull << 20;
  report->devices[0].has_busy = 1;
  report->devices[0].busy = 42;
  report->processes_count = 1;
  report->processes[0] = (outboard_ProcessState){.session = 7,
                                                 .pid = 4242,
                                                 .memory = 100ull << 20,
                                                 .has_busy = 1,
                                                 .busy = 42,
                                                 .program = "train"};
  gethostname(report->processes[0].host, sizeof report->processes[0].host - 1);
}
