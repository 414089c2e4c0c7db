// The environment: every variable with good and bad values, and what is said about bad ones.
#include "setup/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "log_capture.h"

static const char *const variables[] = {
    "OUTBOARD_SERVER",          "OUTBOARD_TOKEN",
    "OUTBOARD_TOKEN_FILE",      "OUTBOARD_GPUS",
    "OUTBOARD_MEMORY",          "OUTBOARD_SHARE",
    "OUTBOARD_CONNECT_TIMEOUT", "OUTBOARD_NETWORK_TIMEOUT",
    "CUDA_VISIBLE_DEVICES",     "OUTBOARD_NAME",
    "OUTBOARD_CLASS",           "TRACEPARENT",
    "OUTBOARD_GPU_MODEL",
};

static struct config config;

static int clean(void **state) {
  (void)state;
  for (unsigned i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
  setenv("OUTBOARD_SERVER", "gpu1:4460", 1);
  log_capture("error");
  log_captured();
  return 0;
}

static void defaults(void **state) {
  (void)state;
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.server_count, 1);
  assert_string_equal(config.servers[0].host, "gpu1");
  assert_string_equal(config.servers[0].port, "4460");
  assert_string_equal(config.access_token, "");
  assert_string_equal(config.name, "");
  assert_string_equal(config.session_class, "");
  assert_string_equal(config.traceparent, "");
  assert_int_equal(config.gpus, 0);
  assert_int_equal(config.memory, 0);
  assert_int_equal(config.share_request, 0);
  assert_int_equal(config.share_limit, 0);
  assert_int_equal(config.connect_timeout_ms, 10000);
  assert_int_equal(config.network_timeout_ms, 60000);
  assert_null(config.visible_devices);
  assert_string_equal(log_captured(), "");
}

// Unset and empty are the same everywhere.
static void empty_values(void **state) {
  (void)state;
  for (unsigned i = 1; i < sizeof variables / sizeof *variables; i++) setenv(variables[i], "", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.connect_timeout_ms, 10000);
  assert_int_equal(config.network_timeout_ms, 60000);
  assert_string_equal(config.visible_devices, "");  // not the same as unset: nothing is visible
  setenv("OUTBOARD_SERVER", "", 1);
  assert_int_equal(config_read(&config), CUDA_ERROR_SYSTEM_NOT_READY);
  assert_non_null(strstr(log_captured(), "OUTBOARD_SERVER is not set"));
  unsetenv("OUTBOARD_SERVER");
  assert_int_equal(config_read(&config), CUDA_ERROR_SYSTEM_NOT_READY);
  assert_non_null(strstr(log_captured(), "OUTBOARD_SERVER is not set"));
}

static void servers(void **state) {
  (void)state;
  setenv("OUTBOARD_SERVER", "a:1,10.0.0.7:65535,[::1]:4460,[fe80::1%eth0]:9", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.server_count, 4);
  assert_string_equal(config.servers[1].host, "10.0.0.7");
  assert_string_equal(config.servers[1].port, "65535");
  assert_string_equal(config.servers[2].host, "::1");
  assert_string_equal(config.servers[2].port, "4460");
  assert_string_equal(config.servers[3].host, "fe80::1%eth0");
  setenv("OUTBOARD_SERVER", "gpu1,[::1],unix", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.server_count, 3);
  assert_string_equal(config.servers[0].host, "gpu1");
  assert_string_equal(config.servers[1].host, "::1");
  assert_string_equal(config.servers[2].host, "unix");
  for (int i = 0; i < 3; i++) assert_string_equal(config.servers[i].port, "4460");
  setenv("OUTBOARD_SERVER", "a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.server_count, 8);
}

#define PATH_107                                                                              \
  "/2345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" \
  "01234567890123456"

static void unix_sockets(void **state) {
  (void)state;
  _Static_assert(sizeof PATH_107 - 1 == 106, "the longest path, less one");
  setenv("OUTBOARD_SERVER", "unix:/run/outboard:1/guests.sock,unix:4460,unix:" PATH_107 "7", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.server_count, 3);
  assert_string_equal(config.servers[0].host, "/run/outboard:1/guests.sock");
  assert_string_equal(config.servers[0].port, "");
  assert_string_equal(config.servers[1].host, "unix");  // a host of that name
  assert_string_equal(config.servers[1].port, "4460");
  assert_string_equal(config.servers[2].host, PATH_107 "7");
}

struct bad {
  const char *variable, *value, *says;
};

static const struct bad bad[] = {
    {"OUTBOARD_SERVER", "[::1", "brackets"},
    {"OUTBOARD_SERVER", "[::1]x", "HOST:PORT"},
    {"OUTBOARD_SERVER", ":4460", "HOST:PORT"},
    {"OUTBOARD_SERVER", "gpu1:", "HOST:PORT"},
    {"OUTBOARD_SERVER", ",", "HOST:PORT"},
    {"OUTBOARD_SERVER", "a:1,,b:2", "HOST:PORT"},
    {"OUTBOARD_SERVER", "[]:4460", "HOST:PORT"},
    {"OUTBOARD_SERVER", "::1:4460", "brackets"},
    {"OUTBOARD_SERVER", "https://gpu1:4462", "tls://HOST:PORT"},
    {"OUTBOARD_SERVER", "TLS://gpu1:4462", "tls://HOST:PORT"},
    {"OUTBOARD_SERVER", "tls://https://gpu1", "tls://HOST:PORT"},
    {"OUTBOARD_SERVER", "gpu1:0", "1 to 65535"},
    {"OUTBOARD_SERVER", "gpu1:65536", "1 to 65535"},
    {"OUTBOARD_SERVER", "gpu1:-1", "1 to 65535"},
    {"OUTBOARD_SERVER", "gpu1:+5", "1 to 65535"},
    {"OUTBOARD_SERVER", "gpu1: 5", "1 to 65535"},
    {"OUTBOARD_SERVER", "gpu1:http", "1 to 65535"},
    {"OUTBOARD_SERVER", "gpu1:44600000", "HOST:PORT"},
    {"OUTBOARD_SERVER", "a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9", "at most 8"},
    {"OUTBOARD_SERVER", "unix:" PATH_107 "78", "at most 107"},
    {"OUTBOARD_SERVER", "unix:run/socket", "unix:/PATH"},
    {"OUTBOARD_NAME", "two\nlines", "printable"},
    {"OUTBOARD_NAME", "caf\xc3\xa9", "printable"},
    {"OUTBOARD_NAME", PATH_107 "78901234567890123456789", "1 to 127"},
    {"OUTBOARD_GPU_MODEL", "caf\xc3\xa9", "printable"},
    {"OUTBOARD_GPU_MODEL", PATH_107, "1 to 95"},
    {"OUTBOARD_CLASS", "urgent", "latency-strict or best-effort"},
    {"OUTBOARD_CLASS", "best-effort ", "latency-strict or best-effort"},
    {"OUTBOARD_TOKEN_FILE", "/no/such/file", "cannot be read: No such file"},
    {"OUTBOARD_GPUS", "0", "1 to 8"},
    {"OUTBOARD_GPUS", "9", "1 to 8"},
    {"OUTBOARD_GPUS", "-1", "1 to 8"},
    {"OUTBOARD_GPUS", "two", "1 to 8"},
    {"OUTBOARD_GPUS", "1.5", "1 to 8"},
    {"OUTBOARD_GPUS", " 1", "1 to 8"},
    {"OUTBOARD_MEMORY", "0", "a size, as in 4G"},
    {"OUTBOARD_MEMORY", "-4G", "a size, as in 4G"},
    {"OUTBOARD_MEMORY", "G", "a size, as in 4G"},
    {"OUTBOARD_MEMORY", "4Gi", "a size, as in 4G"},
    {"OUTBOARD_MEMORY", "99999999999T", "a size, as in 4G"},
    {"OUTBOARD_MEMORY", "18446744073709551616", "a size, as in 4G"},
    {"OUTBOARD_SHARE", "0", "at least 1"},
    {"OUTBOARD_SHARE", "101", "1 to 100"},
    {"OUTBOARD_SHARE", "50:", "1 to 100"},
    {"OUTBOARD_SHARE", ":50", "1 to 100"},
    {"OUTBOARD_SHARE", "50:101", "1 to 100"},
    {"OUTBOARD_SHARE", "50:40", "at least the request"},
    {"OUTBOARD_SHARE", "50:60:70", "1 to 100"},
    {"OUTBOARD_SHARE", "50%", "1 to 100"},
    {"OUTBOARD_CONNECT_TIMEOUT", "0", "1 to 3600"},
    {"OUTBOARD_CONNECT_TIMEOUT", "3601", "1 to 3600"},
    {"OUTBOARD_CONNECT_TIMEOUT", "10s", "1 to 3600"},
    {"OUTBOARD_CONNECT_TIMEOUT", "-3", "1 to 3600"},
    {"OUTBOARD_NETWORK_TIMEOUT", "0", "1 to 3600"},
    {"OUTBOARD_NETWORK_TIMEOUT", "3601", "1 to 3600"},
    {"OUTBOARD_NETWORK_TIMEOUT", "10s", "1 to 3600"},
    {"OUTBOARD_NETWORK_TIMEOUT", "a minute", "1 to 3600"},
};

static void bad_values(void **state) {
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    clean(state);
    setenv(bad[i].variable, bad[i].value, 1);
    CUresult result = config_read(&config);
    const char *log = log_captured();
    // What would begin a line is not written as it is.
    char shown[64];
    snprintf(shown, sizeof shown, "%.60s", bad[i].value);
    for (char *at = shown; (at = strchr(at, '\n'));) *at = '?';
    if (result != CUDA_ERROR_INVALID_VALUE || !strstr(log, bad[i].variable) ||
        !strstr(log, shown) || !strstr(log, bad[i].says))
      fail_msg("%s=\"%s\": result %d, log: %s", bad[i].variable, bad[i].value, (int)result, log);
  }
}

static uint64_t memory_of(const char *value) {
  setenv("OUTBOARD_MEMORY", value, 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  return config.memory;
}

static void memory(void **state) {
  (void)state;
  assert_int_equal(memory_of("1"), 1);
  assert_int_equal(memory_of("1048576"), 1 << 20);
  assert_int_equal(memory_of("3k"), 3 << 10);
  assert_int_equal(memory_of("3K"), 3 << 10);
  assert_int_equal(memory_of("512M"), 512ull << 20);
  assert_int_equal(memory_of("512MiB"), 512ull << 20);
  assert_int_equal(memory_of("4g"), 4ull << 30);
  assert_int_equal(memory_of("2T"), 2ull << 40);
  assert_int_equal(memory_of("18446744073709551615"), UINT64_MAX);
  assert_int_equal(memory_of("16777215T"), 16777215ull << 40);
}

// The same table as monitor/test/options/values.test.ts.
static void sizes(void **state) {
  FILE *table = fopen(SIZES_TABLE, "r");
  assert_non_null(table);
  char line[200];
  unsigned seen = 0;
  while (fgets(line, sizeof line, table)) {
    char *tab = strchr(line, '\t');
    if (line[0] == '#' || !tab) continue;
    *tab = 0;
    tab[1 + strcspn(tab + 1, "\n")] = 0;
    clean(state);
    setenv("OUTBOARD_MEMORY", line, 1);
    CUresult result = config_read(&config);
    _Bool none = strcmp(tab + 1, "-") == 0;
    if (result != (none ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS))
      fail_msg("OUTBOARD_MEMORY=\"%s\": result %d", line, (int)result);
    if (!none && config.memory != strtoull(tab + 1, NULL, 10))
      fail_msg("OUTBOARD_MEMORY=\"%s\": %llu bytes", line, (unsigned long long)config.memory);
    seen++;
  }
  fclose(table);
  assert_true(seen > 50);
}

static void share(void **state) {
  (void)state;
  setenv("OUTBOARD_SHARE", "25", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.share_request, 25);
  assert_int_equal(config.share_limit, 25);
  setenv("OUTBOARD_SHARE", "25:100", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.share_request, 25);
  assert_int_equal(config.share_limit, 100);
}

static void numbers(void **state) {
  (void)state;
  setenv("OUTBOARD_GPUS", "8", 1);
  setenv("OUTBOARD_CONNECT_TIMEOUT", "3600", 1);
  setenv("OUTBOARD_NETWORK_TIMEOUT", "1", 1);
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_int_equal(config.gpus, 8);
  assert_int_equal(config.connect_timeout_ms, 3600000);
  assert_int_equal(config.network_timeout_ms, 1000);
  assert_string_equal(config.visible_devices, "1,0");
}

static void names(void **state) {
  (void)state;
  setenv("OUTBOARD_NAME", PATH_107 "789012345678901234567", 1);
  setenv("OUTBOARD_CLASS", "best-effort", 1);
  setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_string_equal(config.name, PATH_107 "789012345678901234567");
  assert_string_equal(config.session_class, "best-effort");
  assert_string_equal(config.traceparent,
                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  setenv("OUTBOARD_CLASS", "latency-strict", 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_string_equal(config.session_class, "latency-strict");
}

// What others have put into the environment does not keep a program from its GPU.
static void bad_traceparents(void **state) {
  (void)state;
  static const char *const values[] = {
      "00",
      "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
      "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
  };
  log_capture("warn");
  for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
    setenv("TRACEPARENT", values[i], 1);
    assert_int_equal(config_read(&config), CUDA_SUCCESS);
    assert_string_equal(config.traceparent, "");
    assert_non_null(strstr(log_captured(), "TRACEPARENT is no W3C trace context"));
  }
}

static void token_file(const char *text, size_t size, CUresult expected) {
  char path[] = "/tmp/outboard-token-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, size), size);
  close(fd);
  setenv("OUTBOARD_TOKEN_FILE", path, 1);
  CUresult result = config_read(&config);
  unlink(path);
  assert_int_equal(result, expected);
}

static void tokens(void **state) {
  (void)state;
  static char longest[CONFIG_ACCESS_TOKEN_MAX + 2];
  token_file("secret\r\n \t\n", 11, CUDA_SUCCESS);
  assert_string_equal(config.access_token, "secret");
  token_file("", 0, CUDA_ERROR_INVALID_VALUE);
  assert_non_null(strstr(log_captured(), "is empty: it holds no access token"));
  token_file(" \n", 2, CUDA_ERROR_INVALID_VALUE);
  assert_non_null(strstr(log_captured(), "is empty: it holds no access token"));
  memset(longest, 'x', CONFIG_ACCESS_TOKEN_MAX - 1);
  token_file(longest, CONFIG_ACCESS_TOKEN_MAX - 1, CUDA_SUCCESS);
  assert_string_equal(config.access_token, longest);

  setenv("OUTBOARD_TOKEN", "named", 1);  // goes before the file
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_string_equal(config.access_token, "named");
  setenv("OUTBOARD_TOKEN", longest, 1);
  assert_int_equal(config_read(&config), CUDA_SUCCESS);
  assert_string_equal(config.access_token, longest);
}

// A token that is refused must not stand in the log.
static void tokens_too_long(void **state) {
  (void)state;
  static char longest[CONFIG_ACCESS_TOKEN_MAX + 1];
  memset(longest, 'x', CONFIG_ACCESS_TOKEN_MAX);
  token_file(longest, CONFIG_ACCESS_TOKEN_MAX, CUDA_ERROR_INVALID_VALUE);
  const char *log = log_captured();
  assert_non_null(strstr(log, "OUTBOARD_TOKEN_FILE"));
  assert_non_null(strstr(log, "4095"));
  assert_null(strstr(log, "xxxx"));
  setenv("OUTBOARD_TOKEN", longest, 1);
  assert_int_equal(config_read(&config), CUDA_ERROR_INVALID_VALUE);
  log = log_captured();
  assert_non_null(strstr(log, "OUTBOARD_TOKEN is longer than 4095"));
  assert_null(strstr(log, "xxxx"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(defaults, clean),
      cmocka_unit_test_setup(empty_values, clean),
      cmocka_unit_test_setup(servers, clean),
      cmocka_unit_test_setup(bad_values, clean),
      cmocka_unit_test_setup(sizes, clean),
      cmocka_unit_test_setup(memory, clean),
      cmocka_unit_test_setup(share, clean),
      cmocka_unit_test_setup(numbers, clean),
      cmocka_unit_test_setup(tokens, clean),
      cmocka_unit_test_setup(tokens_too_long, clean),
      cmocka_unit_test_setup(unix_sockets, clean),
      cmocka_unit_test_setup(names, clean),
      cmocka_unit_test_setup(bad_traceparents, clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
