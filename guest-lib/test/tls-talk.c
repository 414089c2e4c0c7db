// A connection to OUTBOARD_SERVER as programs have it. Each line of the input is sent, and what
// comes is printed.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "setup/config.h"
#include "setup/dial.h"
#include "setup/log.h"
#include "setup/tls.h"

static void print_all(int fd, struct tls *tls) {
  do {
    const uint8_t *at;
    ssize_t got = tls_receive(tls, fd, MSG_DONTWAIT, &at);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) exit(got == 0 ? 0 : 1);
    fwrite(at, 1, (size_t)got, stdout);
    fflush(stdout);
    tls_took(tls, (size_t)got);
  } while (tls_has(tls));
}

int main(void) {
  static struct config config;
  const struct server_name *server;
  struct tls *tls;
  log_open();
  if (config_read(&config)) return 2;
  int fd = dial(&config, &server, &tls);
  if (fd < 0 || !tls) return 3;
  char line[256];
  struct pollfd polled[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
  for (;;) {
    if (poll(polled, 2, -1) < 0) return 4;
    if (polled[1].revents) print_all(fd, tls);
    if (!polled[0].revents) continue;
    ssize_t size = read(STDIN_FILENO, line, sizeof line);
    if (size <= 0) break;
    if (dial_write(fd, tls, line, (size_t)size, 10000)) return 5;
  }
  tls_close(tls);
  close(fd);
  return 0;
}
