// The extension of the Lambda layer: a process beside the function's runtime, for control alone. At
// the end of each invocation, before Lambda may freeze the environment, it asks the processes that
// have a session to release it; at the end of the environment, to end it.
//
// Lambda says at an invocation's beginning that there is one (Extensions API), and at its end that
// the runtime is done by the Telemetry API, which posts to us. The environment is frozen once the
// runtime and all extensions wait for the next event, so this one asks for that when the sessions
// have answered. Where telemetry is not to be had, nothing is released between invocations.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http.h"
#include "json.h"
#include "sessions.h"

#define ID_MAX 128
// For all sessions together. What is not released by then stays.
#define RELEASE_MS 1000
// Of the 2,000 ms that Lambda leaves at SHUTDOWN.
#define END_MS 1500
// The runtime's end may be told late; Lambda's own deadline is in `deadline_ms`.
#define TOLD_LATE_MS 500

static struct http_message answer;
static struct sockaddr_in api;
static char identifier[ID_MAX];

// ---- what Lambda says --------------------------------------------------------------------------

struct event {
  char type[32], request[ID_MAX];
  int64_t deadline_ms;  // since 1970
};

static void event_member(void *context, unsigned depth, struct json_text key,
                         struct json_text value) {
  struct event *event = context;
  char number[32];
  if (depth != 1) return;
  if (json_is(key, "eventType")) json_copy(value, event->type, sizeof event->type);
  if (json_is(key, "requestId")) json_copy(value, event->request, sizeof event->request);
  if (!json_is(key, "deadlineMs")) return;
  json_copy(value, number, sizeof number);
  event->deadline_ms = strtoll(number, NULL, 10);
}
static void event_ended(void *context, unsigned depth) { (void)context, (void)depth; }

// Of the request whose runtime was done last; and of the record that is being read.
static struct telemetry {
  char done[ID_MAX];
  _Bool is_done;
  char request[ID_MAX];
} telemetry;

// [{"time":...,"type":"platform.runtimeDone","record":{"requestId":...}}]
static void record_member(void *context, unsigned depth, struct json_text key,
                          struct json_text value) {
  struct telemetry *record = context;
  if (depth == 2 && json_is(key, "type")) record->is_done = json_is(value, "platform.runtimeDone");
  if (depth == 3 && json_is(key, "requestId"))
    json_copy(value, record->request, sizeof record->request);
}
static void record_ended(void *context, unsigned depth) {
  struct telemetry *record = context;
  if (depth != 2) return;
  if (record->is_done) memcpy(record->done, record->request, sizeof record->done);
  record->is_done = 0;
  record->request[0] = 0;
}

static void posted(void *context, const char *body, size_t size) {
  (void)context;
  const struct json_reader reader = {record_member, record_ended, &telemetry};
  if (!json_read(body, size, &reader)) say(1, "telemetry that is no JSON is left out");
}

static struct http_server server = {.listening = -1, .posted = posted};

// ---- what we say -------------------------------------------------------------------------------

// Ends the process where the API does not answer as it should: Lambda shows the line, and says that
// the extension has failed.
static void ask(const struct http_request *request) {
  const char *why = http_ask(&server, &api, request, &answer);
  if (!why && http_status(&answer) / 100 == 2) return;
  say(0, "%s %s failed: %s", request->method, request->path,
      why                               ? why
      : answer.body && answer.body_size ? answer.body
                                        : "refused");
  exit(1);
}

static void register_here(void) {
  char headers[ID_MAX + 64];
  snprintf(headers, sizeof headers, "Lambda-Extension-Name: %s\r\n", program_invocation_short_name);
  ask(&(struct http_request){"POST", "/2020-01-01/extension/register", headers,
                             "{\"events\":[\"INVOKE\",\"SHUTDOWN\"]}"});
  if (!http_header(&answer, "Lambda-Extension-Identifier", identifier, sizeof identifier)) {
    say(0, "the Extensions API gave no identifier: is AWS_LAMBDA_RUNTIME_API Lambda's?");
    exit(1);
  }
}

// Whether Lambda will say when the runtime is done.
static _Bool subscribe(void) {
  char headers[ID_MAX + 64], body[300];
  if (!http_serve(&server)) {
    say(0, "no port for telemetry: %s. Sessions are kept between invocations", strerror(errno));
    return 0;
  }
  snprintf(headers, sizeof headers, "Lambda-Extension-Identifier: %s\r\n", identifier);
  snprintf(body, sizeof body,
           "{\"schemaVersion\":\"2022-12-13\",\"types\":[\"platform\"],"
           "\"buffering\":{\"maxItems\":1000,\"maxBytes\":262144,\"timeoutMs\":25},"
           "\"destination\":{\"protocol\":\"HTTP\",\"URI\":\"http://sandbox.localdomain:%u\"}}",
           server.port);
  const char *why =
      http_ask(&server, &api, &(struct http_request){"PUT", "/2022-07-01/telemetry", headers, body},
               &answer);
  // 202 says that the Telemetry API is not supported here.
  if (!why && http_status(&answer) == 200) return 1;
  say(0,
      "there is no Telemetry API (%s): sessions are kept between invocations, until the server's "
      "idle time",
      why                ? why
      : answer.body_size ? answer.body
                         : "refused");
  return 0;
}

static void next_event(struct event *event) {
  char headers[ID_MAX + 64];
  snprintf(headers, sizeof headers, "Lambda-Extension-Identifier: %s\r\n", identifier);
  ask(&(struct http_request){"GET", "/2020-01-01/extension/event/next", headers, NULL});
  *event = (struct event){0};
  const struct json_reader reader = {event_member, event_ended, event};
  if (json_read(answer.body, answer.body_size, &reader) && *event->type) return;
  say(0, "an event of the Extensions API makes no sense");
  exit(1);
}

// Until the runtime is done with the request, or its time is over.
static void await_runtime(const struct event *event) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t left =
      event->deadline_ms - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000) + TOLD_LATE_MS;
  const int64_t deadline = clock_ms() + (left > 0 ? left : 0);
  while (strcmp(telemetry.done, event->request) != 0 && clock_ms() < deadline)
    http_wait(&server, -1, deadline);
}

int main(void) {
  const char *where = getenv("AWS_LAMBDA_RUNTIME_API");
  if (!where || !http_address(where, &api)) {
    say(0, "AWS_LAMBDA_RUNTIME_API=\"%s\" is no address: Lambda starts this from /opt/extensions",
        where ? where : "");
    return 1;
  }
  const char *folder = getenv("OUTBOARD_RELEASE");
  register_here();
  _Bool told = 0;
  if (folder && *folder)
    told = subscribe();
  else
    say(0,
        "OUTBOARD_RELEASE is not set: sessions are kept while the function is frozen. Set it to "
        "/tmp/outboard");
  struct event event;
  for (;;) {
    next_event(&event);
    if (strcmp(event.type, "SHUTDOWN") == 0) break;
    if (!told) continue;
    await_runtime(&event);
    sessions_ask(folder, "release", clock_ms() + RELEASE_MS);
  }
  if (folder && *folder) sessions_ask(folder, "end", clock_ms() + END_MS);
  return 0;
}
