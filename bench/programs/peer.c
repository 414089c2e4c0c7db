// bench-peer: the other end of the raw side. Prints the port it listens on, serves one connection
// at a time, and ends with its standard input, so that it never outlives who started it.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "figure.h"
#include "raw.h"

static char *buffer;

// False at the end of the connection.
static bool receive(int fd, void *bytes, size_t size) {
  while (size) {
    ssize_t got = recv(fd, bytes, size, 0);
    if (got <= 0) return false;
    bytes = (char *)bytes + got;
    size -= (size_t)got;
  }
  return true;
}

static bool answer(int fd, const struct raw_request *request) {
  for (uint64_t i = 0; i < request->count; i++) {
    if (!receive(fd, buffer, request->in)) return false;
    raw_send(fd, buffer, request->out);
  }
  raw_send(fd, buffer, 1);
  return true;
}

static void serve(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct raw_request request;
  while (receive(fd, &request, sizeof request)) {
    if (request.in > RAW_MOST || request.out > RAW_MOST) FAIL("a raw request is too large");
    if (!answer(fd, &request)) break;
  }
  close(fd);
}

int main(void) {
  // Touched, so that page faults are not measured.
  buffer = malloc(RAW_MOST);
  if (!buffer) FAIL("no memory for the raw peer");
  memset(buffer, 1, RAW_MOST);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 8) ||
      getsockname(listener, (struct sockaddr *)&address, &size))
    FAIL("the raw peer cannot listen: %s", strerror(errno));
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  for (;;) {
    struct pollfd polled[2] = {{.fd = listener, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    if (poll(polled, 2, -1) < 0) FAIL("poll: %s", strerror(errno));
    if (polled[1].revents) return 0;
    int fd = accept(listener, NULL, NULL);
    if (fd >= 0) serve(fd);
  }
}
