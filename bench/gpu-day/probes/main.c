// gpu-day-probe: asks a CUDA driver what no page says of it.
//
//   gpu-day-probe NAME LIBRARY [MORE...]
//
// Prints one JSON object. What goes wrong is in it as "error", with "what" for the kind, and the
// exit status is 1. No probe can hang for ever: an alarm ends it.
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi_result.h"
#include "probe.h"

struct driver driver;

static const struct {
  const char *name;
  void (*probe)(char **rest);
} probes[] = {
    {"facts", probe_facts},        {"symbols", probe_symbols},     {"alive", probe_alive},
    {"memory", probe_memory_free}, {"reserve", probe_reserve},     {"mapping", probe_mapping},
    {"exhaust", probe_exhaust},    {"modules", probe_modules},     {"limits", probe_limits},
    {"queue", probe_queue},        {"functions", probe_functions}, {"behind", probe_behind},
    {"events", probe_events},      {"slices", probe_slices},       {"waiting", probe_waiting},
    {"answers", probe_answers},    {"table", probe_table},         {"addresses", probe_addresses},
};

#define LONGEST_SECONDS 90

static bool said;

static void begin_answer(const char *name) {
  printf("%s\"%s\": ", said ? ", " : "{", name);
  said = true;
}

static void print_text(const char *value) {
  putchar('"');
  for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
    if (*c == '"' || *c == '\\') putchar('\\');
    if (*c >= ' ') putchar(*c);
  }
  putchar('"');
}

void say_number(const char *name, double value) {
  begin_answer(name);
  printf("%.9g", value);
}

void say_text(const char *name, const char *value) {
  begin_answer(name);
  print_text(value);
}

void say_result(const char *name, CUresult result) { say_text(name, probe_result_name(result)); }

static void end_answers(void) {
  puts(said ? "}" : "{}");
  fflush(stdout);
}

void fail(const char *what, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  say_text("what", what);
  say_text("error", text);
  end_answers();
  // Not through the driver's own ends, which may wait for what is stuck.
  _exit(1);
}

const char *probe_result_name(CUresult result) {
  const char *name = abi_result_name((int)result);
  return name ? name : "an unknown result";
}

double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

void sleep_us(double us) {
  struct timespec left = {.tv_sec = (time_t)(us / 1e6),
                          .tv_nsec = (long)((us - 1e6 * (double)(time_t)(us / 1e6)) * 1e3)};
  while (nanosleep(&left, &left) && errno == EINTR) {
  }
}

static void *found(const char *name) {
  // POSIX lets what dlsym returns be called.
  return dlsym(driver.handle, name);
}

static void open_driver(const char *library) {
  driver.handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!driver.handle) {
    const char *why = dlerror();
    fail("library", "%s", why ? why : "no reason given");
  }
  char missing[1024] = "";
#define PROBE_FIND(name)                                       \
  driver.name = (__typeof__(driver.name))found(#name);         \
  if (!driver.name && strlen(missing) + 64 < sizeof missing) { \
    if (*missing) strcat(missing, ", ");                       \
    strcat(missing, #name);                                    \
  }
  PROBE_CALLS(PROBE_FIND)
#undef PROBE_FIND
  driver.cuFuncGetParamInfo = (__typeof__(driver.cuFuncGetParamInfo))found("cuFuncGetParamInfo");
  int version = 0;
  if (driver.cuDriverGetVersion) driver.cuDriverGetVersion(&version);
  if (version) say_number("version", version);
  if (*missing) fail("symbols", "%s lacks %s", library, missing);
}

int main(int argc, char **argv) {
  const char *const name = argc > 2 ? argv[1] : "";
  for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
    if (strcmp(probes[i].name, name)) continue;
    alarm(LONGEST_SECONDS);
    open_driver(argv[2]);
    probes[i].probe(argv + 3);
    end_answers();
    // What probes leave in streams need not be waited for.
    _exit(0);
  }
  fputs("usage: gpu-day-probe NAME LIBRARY [MORE...]; NAME:", stderr);
  for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
    fprintf(stderr, " %s", probes[i].name);
  fputc('\n', stderr);
  return 2;
}
