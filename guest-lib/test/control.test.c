// The messages of attach: what is accepted, what is refused, and with which words.
#include "setup/control.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

#include "check.h"
#include "log_capture.h"

static outboard_Answer answer, read_back;
static uint8_t preface[WIRE_PREFACE_BYTES], message[WIRE_CONTROL_MAX];
static uint32_t length;

static void write_preface(const char *magic, uint32_t version, uint32_t size) {
  memcpy(preface, magic, 8);
  memcpy(preface + 8, &version, 4);
  memcpy(preface + 12, &size, 4);
}

// Encodes `answer` as a server of that version would.
static void encode(uint32_t version) {
  pb_ostream_t stream = pb_ostream_from_buffer(message, sizeof message);
  assert_true(pb_encode(&stream, outboard_Answer_fields, &answer));
  length = (uint32_t)stream.bytes_written;
  write_preface("OUTBOARD", version, length);
}

static struct server_name server = {.host = "gpu1", .port = "4461"};

static CUresult read_it(void) {
  uint32_t found;
  log_captured();
  if (!control_read_preface(&server, preface, &found)) return CUDA_ERROR_SYSTEM_NOT_READY;
  assert_int_equal(found, length);
  return control_read_answer(preface, message, length, &read_back);
}

static void expect(CUresult result, const char *says) {
  assert_int_equal(read_it(), result);
  const char *log = log_captured();
  if (says ? !strstr(log, says) : *log) fail_msg("log: \"%s\"", log);
}

static int welcome(void **state) {
  (void)state;
  log_capture("error");
  memset(&answer, 0, sizeof answer);
  answer.which_body = outboard_Answer_welcome_tag;
  outboard_Welcome *w = &answer.body.welcome;
  w->driver_version = 13000;
  w->window_base = WIRE_WINDOW_BASE;
  w->window_size = WIRE_WINDOW_SIZE;
  w->devices_count = 2;
  for (int i = 0; i < 2; i++) {
    outboard_Device *d = &w->devices[i];
    snprintf(d->name, sizeof d->name, "device %d", i);
    d->uuid.size = 16;
    memset(d->uuid.bytes, i + 1, 16);
    // The second is an instance of a GPU in MIG mode.
    d->gpu_uuid.size = i == 1 ? 16 : 0;
    memset(d->gpu_uuid.bytes, 99, 16);
    d->attributes_count = 3;
    d->attributes[2] = -5;
    d->limits_count = 1;
    d->limits[0] = 77;
    d->greatest_priority = -3;
  }
  return 0;
}

static void a_welcome(void **state) {
  (void)state;
  encode(WIRE_PROTOCOL);
  expect(CUDA_SUCCESS, NULL);
  static struct device devices[DEVICES_MAX];
  control_devices(&read_back.body.welcome, devices);
  assert_string_equal(devices[1].name, "device 1");
  assert_int_equal(devices[1].uuid.bytes[15], 2);
  assert_false(devices[0].instance);
  assert_int_equal(devices[0].gpu_uuid.bytes[15], 1);
  assert_true(devices[1].instance);
  assert_int_equal(devices[1].gpu_uuid.bytes[15], 99);
  assert_int_equal(devices[1].server_ordinal, 1);
  assert_int_equal(devices[1].attribute_count, 3);
  assert_int_equal(devices[1].attributes[2], -5);
  assert_int_equal(devices[1].limits[0], 77);
  assert_int_equal(devices[1].greatest_priority, -3);
}

static void welcomes_without_sense(void **state) {
  outboard_Welcome *w = &answer.body.welcome;
  const char *says = "welcome makes no sense";
  w->devices_count = 0;
  encode(WIRE_PROTOCOL);
  expect(CUDA_ERROR_SYSTEM_NOT_READY, says);
  static const uint64_t granularities[] = {1, 4096, 3 << 20, 2ull << 30, 1ull << 63};
  for (unsigned i = 0; i < sizeof granularities / sizeof *granularities; i++) {
    welcome(state);
    w->granularity = granularities[i];
    encode(WIRE_PROTOCOL);
    expect(CUDA_ERROR_SYSTEM_NOT_READY, "gives memory in pieces of");
  }
  static const uint64_t windows[][2] = {
      {0, WIRE_WINDOW_SIZE},
      {WIRE_WINDOW_BASE, 0},
      {WIRE_WINDOW_BASE + 4096, WIRE_WINDOW_SIZE},
      {WIRE_WINDOW_BASE, WIRE_GRANULE + 1},
      {-WIRE_GRANULE, WIRE_GRANULE},
      {-WIRE_GRANULE, 2 * WIRE_GRANULE},
  };
  for (unsigned i = 0; i < sizeof windows / sizeof *windows; i++) {
    welcome(state);
    w->window_base = windows[i][0];
    w->window_size = windows[i][1];
    encode(WIRE_PROTOCOL);
    expect(CUDA_ERROR_SYSTEM_NOT_READY, says);
  }
  welcome(state);
  w->granularity = 32 << 20;
  w->window_base = WIRE_WINDOW_BASE + WIRE_GRANULE;
  encode(WIRE_PROTOCOL);
  expect(CUDA_ERROR_SYSTEM_NOT_READY, says);
}

static void other_versions(void **state) {
  (void)state;
  encode(WIRE_PROTOCOL + 1);
  expect(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "the server speaks protocol 3, this library 2");
  // Even when nothing of it can be understood.
  memset(message, 0xff, length);
  expect(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "the server speaks protocol 3, this library 2");
  // A refusal explains itself, in any version.
  memset(&answer, 0, sizeof answer);
  answer.which_body = outboard_Answer_refusal_tag;
  strcpy(answer.body.refusal.code, "OB_VERSION");
  encode(WIRE_PROTOCOL + 1);
  expect(CUDA_SUCCESS, NULL);
  assert_string_equal(read_back.body.refusal.code, "OB_VERSION");
}

static void what_is_no_answer(void **state) {
  (void)state;
  encode(WIRE_PROTOCOL);
  memcpy(preface, "HTTP/1.1", 8);
  expect(CUDA_ERROR_SYSTEM_NOT_READY, "what answers at gpu1:4461 is not an Outboard");
  server = (struct server_name){.host = "fe80::1", .port = "80"};
  expect(CUDA_ERROR_SYSTEM_NOT_READY, "what answers at [fe80::1]:80 is not an Outboard server");
  server = (struct server_name){.host = "/run/web.sock"};
  expect(CUDA_ERROR_SYSTEM_NOT_READY, "what answers at unix:/run/web.sock is not an Outboard");
  write_preface("OUTBOARD", WIRE_PROTOCOL, WIRE_CONTROL_MAX + 1);
  expect(CUDA_ERROR_SYSTEM_NOT_READY, "longer than the protocol allows");
  write_preface("OUTBOARD", WIRE_PROTOCOL, length = 0);
  expect(CUDA_ERROR_SYSTEM_NOT_READY, "something this library does not know");
  memset(message, 0xff, 32);
  write_preface("OUTBOARD", WIRE_PROTOCOL, length = 32);
  expect(CUDA_ERROR_SYSTEM_NOT_READY, "could not be decoded");
}

// No prefix of an answer is an answer that matters.
static void cut_answers(void **state) {
  (void)state;
  encode(WIRE_PROTOCOL);
  uint32_t whole = length;
  for (uint32_t cut = 0; cut < whole; cut++) {
    write_preface("OUTBOARD", WIRE_PROTOCOL, length = cut);
    assert_int_equal(read_it(), CUDA_ERROR_SYSTEM_NOT_READY);
  }
}

static void hello(void **state) {
  (void)state;
  static outboard_Hello sent, got;
  static uint8_t bytes[WIRE_CONTROL_MAX];
  strcpy(sent.program, "train");
  memset(sent.token, 't', sizeof sent.token - 1);
  sent.memory = 4ull << 30;
  sent.window_bases_count = 1;
  sent.window_bases[0] = WIRE_WINDOW_BASE;
  size_t size = control_write_hello(bytes, &sent);
  uint32_t found;
  assert_true(control_read_preface(&server, bytes, &found));
  assert_int_equal(found, size - WIRE_PREFACE_BYTES);
  pb_istream_t stream = pb_istream_from_buffer(bytes + WIRE_PREFACE_BYTES, found);
  assert_true(pb_decode(&stream, outboard_Hello_fields, &got));
  assert_string_equal(got.program, "train");
  assert_string_equal(got.token, sent.token);
  assert_int_equal(got.memory, 4ull << 30);
  assert_int_equal(got.window_bases[0], WIRE_WINDOW_BASE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_welcome, welcome),
      cmocka_unit_test_setup(welcomes_without_sense, welcome),
      cmocka_unit_test_setup(other_versions, welcome),
      cmocka_unit_test_setup(what_is_no_answer, welcome),
      cmocka_unit_test_setup(cut_answers, welcome),
      cmocka_unit_test(hello),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
