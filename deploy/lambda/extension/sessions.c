#define _GNU_SOURCE
#include "sessions.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http.h"

#define ANSWER_MAX 256

static _Bool wants_detail(void) {
  const char *level = getenv("OUTBOARD_LOG");
  return level && (strncmp(level, "info", 4) == 0 || strncmp(level, "debug", 5) == 0 ||
                   strncmp(level, "trace", 5) == 0);
}

void say(_Bool detail, const char *format, ...) {
  if (detail && !wants_detail()) return;
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  printf("outboard extension: %s\n", text);
  fflush(stdout);
}

// The same sentence again would only fill the log.
static void say_why_kept(const char *why) {
  static char said[ANSWER_MAX];
  const _Bool again = strcmp(why, said) == 0;
  if (!again)
    say(0,
        "a session is kept while the function is frozen: %s. The server ends it after its idle "
        "time; cudaDeviceReset() at the end of the handler lets it be released (said once)",
        why);
  snprintf(said, sizeof said, "%s", why);
}

static void say_lost(void) {
  static _Bool said;
  if (!said)
    say(0,
        "a session is lost, for the reason that the function's log tells: a process that cannot go "
        "on without should end (os._exit), and Lambda starts another (said once)");
  said = 1;
}

static int remaining(int64_t deadline) {
  const int64_t left = deadline - clock_ms();
  return left > 0 ? (int)left : 0;
}

// One line, without its end. False where none came in time.
static _Bool read_line(int fd, int64_t deadline, char *line, size_t size) {
  size_t have = 0;
  for (;;) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    if (poll(&polled, 1, remaining(deadline)) <= 0) return 0;
    ssize_t got = recv(fd, line + have, size - 1 - have, 0);
    if (got <= 0) return 0;
    have += (size_t)got;
    line[have] = 0;
    char *end = strchr(line, '\n');
    if (end) *end = 0;
    if (end) return 1;
    if (have == size - 1) return 0;
  }
}

// Of a process that is gone; other files refuse a connection likewise.
static void remove_old(const char *path) {
  struct stat there;
  if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode)) unlink(path);
}

static void ask_one(const char *path, const char *process, const char *what, int64_t deadline) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return;
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  char line[ANSWER_MAX], asked[32];
  const int length = snprintf(asked, sizeof asked, "%s\n", what);
  if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
    const int why = errno;
    if (why == ECONNREFUSED) remove_old(path);
    say(1, "process %s has no session any more: %s", process, strerror(why));
  } else if (send(fd, asked, (size_t)length, MSG_NOSIGNAL) != length ||
             !read_line(fd, deadline, line, sizeof line)) {
    say(0, "process %s did not answer in time: its session stays as it is", process);
  } else {
    say(1, "process %s: %s", process, line);
    unsigned long long number;
    int why = 0;
    if (sscanf(line, "kept %llu %n", &number, &why) == 1 && why) say_why_kept(line + why);
    if (strncmp(line, "lost ", 5) == 0) say_lost();
  }
  close(fd);
}

void sessions_ask(const char *folder, const char *what, int64_t deadline) {
  DIR *all = opendir(folder);
  if (!all) return;  // no process of the function has a session yet
  const struct dirent *entry;
  while ((entry = readdir(all))) {
    const char *name = entry->d_name;
    if (name[strspn(name, "0123456789")] || !*name) continue;
    char path[512];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path)
      ask_one(path, name, what, deadline);
  }
  closedir(all);
}
