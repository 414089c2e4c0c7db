#include "base/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "abi_signals.h"
#include "base/place.h"
#include "setup/clock.h"
#include "setup/environment.h"

static char folder[256];
static _Bool wanted;
static _Bool errors_too;

// A new file in the folder; below 0 with EEXIST if it is there already.
static int create(const char *name) {
  char path[sizeof folder + 32];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return descriptor_above(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
}

static int note(const char *name) {
  int fd = create(name);
  if (fd >= 0) close(fd);
  return fd;
}

void notice_open(void) {
  const char *where = environment("OUTBOARD_NOTICES"), *log = environment("OUTBOARD_LOG");
  if (!where || strlen(where) >= sizeof folder) return;
  strcpy(folder, where);
  note("called");
  wanted = !log || strchr(log, ':');
}

static void write_line(const char *text, size_t length) {
  char line[1100];
  int size = snprintf(line, sizeof line, "outboard: %.*s\n", (int)length, text);
  // One write, so that lines of threads and processes do not mix.
  struct abi_held_signal held;
  abi_signal_hold(&held, SIGPIPE);
  ssize_t done = write(2, line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1);
  (void)done;
  abi_signal_release(&held);
}

// Without a folder to note it in it is said again and again rather than never.
static void say(const char *text, size_t length) {
  int saved = errno;
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  char name[32];
  snprintf(name, sizeof name, "%016llx", (unsigned long long)hash);
  if (note(name) >= 0 || errno != EEXIST) write_line(text, length);
  errno = saved;
}

void notice_errors(_Bool on) {
  errors_too = on && wanted;
  log_tell(errors_too ? say : NULL);
}

void notice(enum log_level level, const char *format, ...) {
  if (!wanted && level > log_level) return;
  char text[1000];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (size < 0) return;
  size_t length = (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
  log_clean(text, length);
  LOG(level, "%s", text);
  if (wanted && !(errors_too && level == LOG_ERROR)) say(text, length);
}

void notice_at_end(const char *name, const char *text) {
  if (!wanted) return;
  int saved = errno;
  int fd = create(name);
  if (fd >= 0) {
    ssize_t done = write(fd, text, strlen(text));
    (void)done;
    close(fd);
  }
  errno = saved;
}

static struct place place;

void notice_place(unsigned position) {
  log_info("waiting for a free slot: position %u", position);
  if (!wanted) return;
  if (!isatty(2)) {
    place_note(&place, position, clock_ms());
    return;
  }
  char text[PLACE_TEXT];
  int length = snprintf(text, sizeof text, "waiting for a GPU: place %u in the queue", position);
  write_line(text, (size_t)length);
}

int64_t notice_due_at(void) { return place_due(&place); }

void notice_due(void) {
  char text[PLACE_TEXT];
  if (place_say(&place, clock_ms(), text)) write_line(text, strlen(text));
}

void notice_waited(_Bool well) {
  char text[PLACE_TEXT];
  if (place_end(&place, clock_ms(), text) && well) write_line(text, strlen(text));
}
