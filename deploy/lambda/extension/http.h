// As much of HTTP/1.1 as the Extensions and Telemetry APIs of Lambda need, in one thread: one
// request at a time, and meanwhile a server that takes what is posted to it.
#ifndef OUTBOARD_HTTP_H
#define OUTBOARD_HTTP_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

// Of a message, head and all. The Telemetry API is told to send less (telemetry.c).
#define HTTP_MESSAGE_MAX (320u << 10)

// A message as it came, with a 0 behind it.
struct http_message {
  char bytes[HTTP_MESSAGE_MAX + 1];
  size_t have;
  char *body;  // NULL until the head is there
  size_t body_size;
};

// Whether all of the message has come, of a connection that has ended or goes on: 1, 0, or -1 where
// it makes no sense or is too long. Finds the body, and puts it together where it came in chunks.
int http_complete(struct http_message *message, _Bool ended);
// The status of an answer; 0 when it is none.
int http_status(const struct http_message *message);
// Copies a header's value; false where there is none, or it does not fit.
_Bool http_header(const struct http_message *message, const char *name, char *to, size_t size);

// HOST:PORT with a number as the host, as Lambda gives it; "localhost" counts as 127.0.0.1.
_Bool http_address(const char *text, struct sockaddr_in *address);

// What is posted to us while a request waits.
struct http_server {
  int listening;  // -1: none
  uint16_t port;
  struct http_client *clients;
  void (*posted)(void *context, const char *body, size_t size);
  void *context;
};
// Listens on any address, on a port of the system's choice. False, with errno, where it cannot.
_Bool http_serve(struct http_server *server);
// Takes what comes, until `deadline` (clock_ms; -1: for ever), or until fd (-1: none) can be read:
// true then.
_Bool http_wait(struct http_server *server, int fd, int64_t deadline);

struct http_request {
  const char *method, *path;
  const char *headers;  // lines, each with its end
  const char *body;     // JSON, or NULL
};
// Sends it and waits for the answer, serving meanwhile. NULL, or a clause that says what failed.
const char *http_ask(struct http_server *server, const struct sockaddr_in *api,
                     const struct http_request *request, struct http_message *answer);

int64_t clock_ms(void);

#endif
