// Who posts to the extension and does not read what it is answered is dropped; others are served.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../extension/http.h"

static const char post[] = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]";

static void count(void *context, const char *body, size_t size) {
  assert_int_equal(size, 2);
  assert_memory_equal(body, "[]", 2);
  ++*(int *)context;
}

static int connected(const struct http_server *server) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  const int small = 1;
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  const struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons(server->port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

static void a_client_that_does_not_read_is_dropped(void **state) {
  (void)state;
  int posts = 0;
  struct http_server server = {.posted = count, .context = &posts};
  assert_true(http_serve(&server));
  const int small = 1;
  assert_int_equal(setsockopt(server.listening, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  const int deaf = connected(&server);
  assert_false(http_wait(&server, -1, -1));  // it is let in
  // What can always be read ends each wait, also the one after which the connection is gone.
  int awake[2];
  assert_int_equal(pipe(awake), 0);
  assert_int_equal(write(awake[1], "", 1), 1);
  while (send(deaf, post, sizeof post - 1, MSG_NOSIGNAL) > 0)
    assert_true(http_wait(&server, awake[0], -1));
  assert_true(errno == EPIPE || errno == ECONNRESET);
  assert_true(posts > 1);

  const int other = connected(&server);
  assert_false(http_wait(&server, -1, -1));
  const int before = posts;
  assert_int_equal(send(other, post, sizeof post - 1, MSG_NOSIGNAL), sizeof post - 1);
  http_wait(&server, -1, -1);
  assert_int_equal(posts, before + 1);
  char answer[64] = {0};
  assert_true(recv(other, answer, sizeof answer - 1, 0) > 0);
  assert_non_null(strstr(answer, "200 OK"));
  close(other);
  close(deaf);
  close(awake[0]);
  close(awake[1]);
  close(server.listening);
  free(server.clients);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_client_that_does_not_read_is_dropped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
