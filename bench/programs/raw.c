#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "figure.h"

int raw_connect(const char *port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)atoi(port)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
    FAIL("no connection to the raw peer at port %s: %s", port, strerror(errno));
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void raw_send(int fd, const void *bytes, size_t size) {
  while (size) {
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent < 0) FAIL("sending to the raw peer: %s", strerror(errno));
    bytes = (const char *)bytes + sent;
    size -= (size_t)sent;
  }
}

void raw_receive(int fd, void *bytes, size_t size) {
  while (size) {
    ssize_t got = recv(fd, bytes, size, 0);
    if (got == 0) FAIL("the raw peer has ended");
    if (got < 0) FAIL("receiving from the raw peer: %s", strerror(errno));
    bytes = (char *)bytes + got;
    size -= (size_t)got;
  }
}

void raw_ask(int fd, struct raw_request request) { raw_send(fd, &request, sizeof request); }

void raw_finished(int fd) {
  char done;
  raw_receive(fd, &done, 1);
}
