// How a supervisor (deploy/lambda) reaches the session of this process. It connects, sends one line
// and gets one line, and may go on:
//   release    released NUMBER | kept NUMBER WHY | lost NUMBER
//   end        ended NUMBER
// NUMBER is the session's on its server. "end" is for who is about to be killed: the server is told
// at once, and every later call fails as after any loss of the connection.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "base/thread.h"
#include "driver/companion.h"
#include "driver/release.h"
#include "session/session.h"
#include "setup/environment.h"
#include "setup/log.h"
#include "wire/connection.h"
#include "wire/enter.h"

#define LINE_MAX_BYTES 16
#define BACKLOG 4

static int listening = -1;

static void answer(int fd, const char *line) {
  char reply[256];
  uint64_t number = companion_number(sessions);
  const unsigned long long *shown = (const unsigned long long *)&number;
  if (guest_is_lost()) {
    snprintf(reply, sizeof reply, "lost %llu\n", *shown);
  } else if (strcmp(line, "release") == 0) {
    const char *why = release(&number);
    log_info(why ? "session %llu is kept: %s" : "session %llu is released", *shown, why);
    snprintf(reply, sizeof reply, why ? "kept %llu %s\n" : "released %llu\n", *shown, why);
  } else if (strcmp(line, "end") == 0) {
    log_info("session %llu is ended by its supervisor", *shown);
    guest_set_lost(CUDA_ERROR_DEVICE_UNAVAILABLE);
    connection_shut_down();
    snprintf(reply, sizeof reply, "ended %llu\n", *shown);
  } else {
    snprintf(reply, sizeof reply, "unknown: say release or end\n");
  }
  ssize_t sent = send(fd, reply, strlen(reply), MSG_NOSIGNAL);
  (void)sent;  // who has gone knows no more than before
}

// Who else could reach it may as well end the process.
static _Bool is_of_this_user(int fd) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size)) return 0;
  return peer.uid == geteuid() || peer.uid == 0;
}

static void serve(int fd) {
  char line[LINE_MAX_BYTES];
  size_t have = 0;
  // Nobody may keep the others from it.
  const struct timeval limit = {.tv_sec = 1};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  for (;;) {
    ssize_t got = recv(fd, line + have, sizeof line - have, 0);
    if (got <= 0) return;
    have += (size_t)got;
    char *end;
    while ((end = memchr(line, '\n', have))) {
      *end++ = 0;
      answer(fd, line);
      have -= (size_t)(end - line);
      memmove(line, end, have);
    }
    if (have == sizeof line) return;
  }
}

static void *listen_for_supervisor(void *unused) {
  (void)unused;
  for (;;) {
    int fd = descriptor_above(accept4(listening, NULL, NULL, SOCK_CLOEXEC));
    if (fd >= 0) {
      if (is_of_this_user(fd)) serve(fd);
      close(fd);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      log_warn("no release can be asked for any more: %s", strerror(errno));
      return NULL;
    }
  }
}

// A child has no such thread, and no session.
static void in_child(void) {
  close(listening);
  listening = -1;
}

// No other process has our number, so a socket there is left of one that is gone. What else has the
// name is somebody's.
static void remove_old(const char *path) {
  struct stat there;
  int fd = descriptor_above(open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (fd < 0) return;
  if (fstat(fd, &there) == 0 && S_ISSOCK(there.st_mode)) unlink(path);
  close(fd);
}

// 0, or an errno value.
static int open_at(const struct sockaddr_un *address) {
  int fd = descriptor_above(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return errno;
  remove_old(address->sun_path);
  listening = fd;
  int error = bind(fd, (const struct sockaddr *)address, sizeof *address) || listen(fd, BACKLOG)
                  ? errno
                  : thread_start(listen_for_supervisor, NULL);
  if (!error) {
    pthread_atfork(NULL, NULL, in_child);
    return 0;
  }
  close(fd);
  listening = -1;
  return error;
}

void release_socket_open(void) {
  const char *folder = environment("OUTBOARD_RELEASE");
  if (!folder) return;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%d", folder, (int)getpid());
  int error = (size_t)length >= sizeof address.sun_path ? ENAMETOOLONG : 0;
  if (!error && mkdir(folder, 0700) && errno != EEXIST) error = errno;
  if (!error) error = open_at(&address);
  if (error)
    log_warn(
        "OUTBOARD_RELEASE=\"%s\": no socket can be made there: %s. The session is kept until the "
        "program ends",
        folder, strerror(error));
}
