#include "setup/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "abi_signals.h"
#include "setup/clock.h"
#include "setup/environment.h"

_Atomic enum log_level log_level = LOG_OFF;
__thread _Bool log_hushed;
static _Atomic enum log_level written = LOG_OFF;
static int log_fd = 2;
static void (*_Atomic observed)(enum log_level, const char *, size_t);
static void (*_Atomic told)(const char *, size_t);

static const char *const names[] = {"off", "error", "warn", "info", "debug", "trace"};

static void write_from(enum log_level level) {
  written = level;
  enum log_level least = observed ? LOG_WARN : told ? LOG_ERROR : LOG_OFF;
  log_level = level < least ? least : level;
}

void log_observe(void (*observer)(enum log_level, const char *, size_t)) {
  observed = observer;
  write_from(written);
}

void log_tell(void (*teller)(const char *, size_t)) {
  told = teller;
  write_from(written);
}

const char *log_configure(const char *value) {
  const char *colon = strchr(value, ':');
  size_t length = colon ? (size_t)(colon - value) : strlen(value);
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    if (strlen(names[i]) != length || strncmp(names[i], value, length) != 0) continue;
    if (colon && colon[1]) {
      int fd = descriptor_above(open(colon + 1, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
      if (fd < 0) {
        write_from(LOG_WARN);
        return "the log file cannot be opened for appending; the log goes to stderr";
      }
      log_fd = fd;
    }
    write_from((enum log_level)i);
    return NULL;
  }
  // Asked for a log, but not clearly: better too much than nothing.
  write_from(LOG_WARN);
  return "OUTBOARD_LOG takes off, error, warn, info, debug or trace, optionally followed by :FILE";
}

void log_open(void) {
  const char *value = environment("OUTBOARD_LOG");
  const char *wrong = value ? log_configure(value) : NULL;
  if (wrong) log_error("OUTBOARD_LOG=\"%s\": %s", value, wrong);
}

void log_clean(char *text, size_t length) {
  unsigned char *at = (unsigned char *)text, *end = at + length;
  for (; at < end; at++) {
    // In UTF-8 those behind ASCII's are two bytes.
    const _Bool wide = *at == 0xc2 && end - at > 1 && (at[1] & 0xe0) == 0x80;
    if (*at >= ' ' && *at != 0x7f && !wide) continue;
    *at = '?';
    if (wide) *++at = '?';
  }
}

void log_write(enum log_level level, const char *format, ...) {
  if (level > log_level || log_hushed) return;
  // errno is the program's: a CUDA call must not change it because a log is on.
  int saved = errno;
  char line[1024];
  const struct timespec now = clock_of_day();
  struct tm utc;
  gmtime_r(&now.tv_sec, &utc);
  int used = snprintf(line, sizeof line, "outboard %02d:%02d:%02d.%06ld %d %s: ", utc.tm_hour,
                      utc.tm_min, utc.tm_sec, now.tv_nsec / 1000, (int)getpid(), names[level]);
  va_list arguments;
  va_start(arguments, format);
  int text = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
  va_end(arguments);
  size_t length = (size_t)used + (text > 0 ? (size_t)text : 0);
  if (length > sizeof line - 2) length = sizeof line - 2;
  log_clean(line + used, length - (size_t)used);
  void (*observer)(enum log_level, const char *, size_t) = observed;
  if (observer && level <= LOG_WARN) observer(level, line + used, length - (size_t)used);
  void (*teller)(const char *, size_t) = told;
  if (teller && level == LOG_ERROR) teller(line + used, length - (size_t)used);
  line[length++] = '\n';
  // One write per line, so that lines of threads and processes do not mix.
  if (level <= written) {
    struct abi_held_signal held;
    abi_signal_hold(&held, SIGPIPE);
    ssize_t done = write(log_fd, line, length);
    (void)done;
    abi_signal_release(&held);
  }
  errno = saved;
}
