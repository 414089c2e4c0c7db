#define _GNU_SOURCE
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 4

struct http_client {
  int fd;  // 0: none
  struct http_message message;
};

int64_t clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// ---- messages ----------------------------------------------------------------------------------

_Bool http_header(const struct http_message *message, const char *name, char *to, size_t size) {
  const size_t length = strlen(name);
  const char *line = message->bytes;
  while ((line = strstr(line, "\r\n")) && line + 2 < message->body) {
    line += 2;
    if (strncasecmp(line, name, length) != 0 || line[length] != ':') continue;
    const char *value = line + length + 1 + strspn(line + length + 1, " \t");
    const size_t value_length = strcspn(value, "\r\n");
    if (value_length >= size) return 0;
    memcpy(to, value, value_length);
    to[value_length] = 0;
    return 1;
  }
  return 0;
}

int http_status(const struct http_message *message) {
  int status = 0;
  return sscanf(message->bytes, "HTTP/1.%*1[01] %3d", &status) == 1 ? status : 0;
}

// Moves the chunks together. As http_complete.
static int join_chunks(struct http_message *message) {
  char *from = message->body, *end = message->bytes + message->have, *to = message->body;
  for (;;) {
    char *line = memmem(from, (size_t)(end - from), "\r\n", 2);
    if (!line) return end - from > 32 ? -1 : 0;
    char *rest;
    errno = 0;
    const unsigned long size = strtoul(from, &rest, 16);
    if (rest == from || errno || size > HTTP_MESSAGE_MAX) return -1;
    if (size == 0) break;
    if ((size_t)(end - line) < size + 4) return 0;
    memmove(to, line + 2, size);
    to += size;
    from = line + 2 + size + 2;
  }
  message->body_size = (size_t)(to - message->body);
  return 1;
}

int http_complete(struct http_message *message, _Bool ended) {
  message->bytes[message->have] = 0;
  char *head = strstr(message->bytes, "\r\n\r\n");
  if (!head) return ended || message->have == HTTP_MESSAGE_MAX ? -1 : 0;
  message->body = head + 4;
  const size_t there = message->have - (size_t)(message->body - message->bytes);
  char value[32];
  if (http_header(message, "Transfer-Encoding", value, sizeof value)) {
    if (strcasecmp(value, "chunked") != 0) return -1;
    // It is put together once all is there: a copy tells, and the whole is small.
    struct http_message *copy = malloc(sizeof *copy);
    if (!copy) return -1;
    memcpy(copy, message, sizeof *copy);
    copy->body = copy->bytes + (message->body - message->bytes);
    int done = join_chunks(copy);
    free(copy);
    if (done == 1) return join_chunks(message);
    return done == 0 && (ended || message->have == HTTP_MESSAGE_MAX) ? -1 : done;
  }
  if (http_header(message, "Content-Length", value, sizeof value)) {
    char *rest;
    message->body_size = strtoul(value, &rest, 10);
    if (*rest || message->body_size > HTTP_MESSAGE_MAX) return -1;
    if (there >= message->body_size) return 1;
    return ended || message->have == HTTP_MESSAGE_MAX ? -1 : 0;
  }
  message->body_size = there;
  // A request without a length has no body; an answer lasts as long as its connection.
  return http_status(message) == 0 || ended;
}

// False at the end of the connection.
static _Bool receive(int fd, struct http_message *message) {
  ssize_t got;
  do got = recv(fd, message->bytes + message->have, HTTP_MESSAGE_MAX - message->have, 0);
  while (got < 0 && errno == EINTR);
  if (got > 0) message->have += (size_t)got;
  return got > 0;
}

static _Bool send_all(int fd, const char *bytes, size_t size) {
  while (size) {
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return 0;
    bytes += sent;
    size -= (size_t)sent;
  }
  return 1;
}

// ---- the server --------------------------------------------------------------------------------

// Of what a client is answered there is always room, unless it reads nothing: nobody waits for
// that.
static _Bool answer_at_once(int fd, const char *bytes, size_t size) {
  ssize_t sent;
  do sent = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)size;
}

_Bool http_serve(struct http_server *server) {
  server->listening = -1;
  struct sockaddr_in any = {.sin_family = AF_INET};
  socklen_t size = sizeof any;
  server->clients = calloc(CLIENTS_MAX, sizeof *server->clients);
  // Who has come may have gone again before accept, which must not wait for the next one.
  const int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  int fd = server->clients ? socket(AF_INET, kind, 0) : -1;
  if (fd < 0) return 0;
  if (bind(fd, (struct sockaddr *)&any, size) || listen(fd, CLIENTS_MAX) ||
      getsockname(fd, (struct sockaddr *)&any, &size)) {
    const int error = errno;
    close(fd);
    errno = error;
    return 0;
  }
  server->listening = fd;
  server->port = ntohs(any.sin_port);
  return 1;
}

static void drop(struct http_client *client) {
  close(client->fd);
  client->fd = 0;
}

static void admit(struct http_server *server) {
  int fd = accept4(server->listening, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  struct http_client *place = server->clients;
  while (place < server->clients + CLIENTS_MAX && place->fd) place++;
  // There is one who posts; who holds connections open without a word makes way.
  if (place == server->clients + CLIENTS_MAX) drop(place = server->clients);
  place->fd = fd;
  place->message.have = 0;
}

static void hear(struct http_server *server, struct http_client *client) {
  static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  static const char bad[] =
      "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  struct http_message *message = &client->message;
  if (!receive(client->fd, message)) {
    drop(client);
    return;
  }
  const int complete = http_complete(message, 0);
  if (complete == 0) return;
  if (complete < 0) {
    answer_at_once(client->fd, bad, sizeof bad - 1);
    drop(client);
    return;
  }
  server->posted(server->context, message->body, message->body_size);
  // The next comes when this one is answered: what is behind it now is nobody's.
  message->have = 0;
  if (!answer_at_once(client->fd, ok, sizeof ok - 1)) drop(client);
}

static int left_of(int64_t deadline) {
  if (deadline < 0) return -1;
  const int64_t left = deadline - clock_ms();
  return left > 0 ? (int)left : 0;
}

_Bool http_wait(struct http_server *server, int fd, int64_t deadline) {
  struct pollfd polled[2 + CLIENTS_MAX] = {{.fd = fd, .events = POLLIN},
                                           {.fd = server->listening, .events = POLLIN}};
  for (unsigned i = 0; i < CLIENTS_MAX; i++) {
    const int client = server->listening >= 0 ? server->clients[i].fd : 0;
    polled[2 + i] = (struct pollfd){.fd = client ? client : -1, .events = POLLIN};
  }
  if (poll(polled, 2 + CLIENTS_MAX, left_of(deadline)) <= 0) return 0;
  for (unsigned i = 0; i < CLIENTS_MAX; i++)
    if (polled[2 + i].revents) hear(server, &server->clients[i]);
  if (polled[1].revents) admit(server);
  return polled[0].revents != 0;
}

// ---- requests ----------------------------------------------------------------------------------

_Bool http_address(const char *text, struct sockaddr_in *address) {
  const char *colon = strrchr(text, ':');
  char host[64];
  if (!colon || (size_t)(colon - text) >= sizeof host) return 0;
  memcpy(host, text, (size_t)(colon - text));
  host[colon - text] = 0;
  char *end;
  const unsigned long port = strtoul(colon + 1, &end, 10);
  if (*end || !port || port > 65535) return 0;
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                   &address->sin_addr) == 1;
}

const char *http_ask(struct http_server *server, const struct sockaddr_in *api,
                     const struct http_request *request, struct http_message *answer) {
  static char said[200];
  char head[1024], host[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &api->sin_addr, host, sizeof host);
  const size_t body = request->body ? strlen(request->body) : 0;
  const int length =
      snprintf(head, sizeof head,
               "%s %s HTTP/1.1\r\nHost: %s:%u\r\n%sContent-Type: application/json\r\n"
               "Content-Length: %zu\r\nConnection: close\r\n\r\n",
               request->method, request->path, host, ntohs(api->sin_port), request->headers, body);
  if (length < 0 || (size_t)length >= sizeof head) return "the request is too long";
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const char *why = NULL;
  if (fd < 0 || connect(fd, (const struct sockaddr *)api, sizeof *api) ||
      !send_all(fd, head, (size_t)length) || (body && !send_all(fd, request->body, body))) {
    snprintf(said, sizeof said, "%s", strerror(errno));
    why = said;
  }
  answer->have = 0;
  answer->body = NULL;
  int complete = 0;
  while (!why && !complete) {
    if (!http_wait(server, fd, -1)) continue;
    const _Bool more = receive(fd, answer);
    complete = http_complete(answer, !more);
    if (complete < 0) why = "the answer makes no sense";
  }
  if (fd >= 0) close(fd);
  return why;
}
