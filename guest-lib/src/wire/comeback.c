#include "wire/comeback.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "base/thread.h"
#include "kept_bytes.h"
#include "setup/clock.h"
#include "setup/control.h"
#include "setup/dial.h"
#include "setup/log.h"
#include "wire/answer.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire_calls.h"

struct comeback {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct kept_bytes kept;  // of who sends
  uint64_t received;       // bytes of the stream; of who reads
  _Bool sending;           // somebody is, between begin_sending and end_sending
  _Bool parked;            // and waits for another connection
  _Bool away;              // nothing can be sent until there is one
  _Bool broken;            // one is wanted
  _Bool over;              // there will be none
  _Bool started;           // the thread
  int wake;                // an eventfd, one more than its number, that the thread waits at
  struct descriptor_mark wake_mark;
  uint64_t number;  // of the session
  pb_byte_t secret[16];
  uint32_t epoch;
  uint32_t seconds;  // for which the server keeps it
  struct config config;
};
// Of the first session: a program with several GPUs has none.
static struct comeback only = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};

_Bool comeback_possible(const struct session *session, const struct config *config) {
  return session == sessions && config->gpus <= 1;
}

// ---- who sends ---------------------------------------------------------------------------------

static void wait_while_away(struct comeback *comeback) {
  while (comeback->away && !comeback->over) pthread_cond_wait(&comeback->changed, &comeback->lock);
}

int comeback_begin_sending(struct session *session) {
  (void)session;
  struct comeback *comeback = &only;
  pthread_mutex_lock(&comeback->lock);
  wait_while_away(comeback);
  comeback->sending = 1;
  pthread_mutex_unlock(&comeback->lock);
  return 0;
}

void comeback_end_sending(struct session *session) {
  (void)session;
  struct comeback *comeback = &only;
  pthread_mutex_lock(&comeback->lock);
  comeback->sending = 0;
  if (comeback->away) pthread_cond_broadcast(&comeback->changed);
  pthread_mutex_unlock(&comeback->lock);
}

void comeback_keep(struct session *session, const struct iovec *parts, int count, size_t size) {
  (void)session;
  for (; count && size; parts++, count--) {
    const size_t part = size < parts->iov_len ? size : parts->iov_len;
    kept_add(&only.kept, parts->iov_base, part);
    size -= part;
  }
}

struct kept_bytes *comeback_keeps(struct session *session) {
  return session->comeback ? &only.kept : NULL;
}

size_t comeback_kept(struct session *session, uint64_t from, const uint8_t **run) {
  (void)session;
  return kept_run(&only.kept, from, run);
}

void comeback_received(struct session *session, size_t size) {
  (void)session;
  only.received += size;
}

// With the lock held. Says that what the thread waits for may be there.
static void say_changed(struct comeback *comeback) {
  if (descriptor_is(comeback->wake - 1, comeback->wake_mark)) eventfd_write(comeback->wake - 1, 1);
  pthread_cond_broadcast(&comeback->changed);
}

// With the lock held. What the program has under the socket's number, which it has closed, is left
// alone: there is no other connection then.
static void want_another(struct session *session, struct comeback *comeback) {
  if (!connection_is_there(session)) {
    comeback->over = 1;
    pthread_cond_broadcast(&comeback->changed);
    return;
  }
  comeback->away = 1;
  comeback->broken = 1;
  // So that whoever reads sees it end.
  shutdown(connection_fd(session), SHUT_RDWR);
  say_changed(comeback);
}

_Bool comeback_await(struct session *session) {
  struct comeback *comeback = session->comeback;
  if (!comeback || guest_is_lost() || guest_is_child()) return 0;
  pthread_mutex_lock(&comeback->lock);
  if (!comeback->over) want_another(session, comeback);
  comeback->parked = 1;
  wait_while_away(comeback);
  comeback->parked = 0;
  const _Bool goes_on = !comeback->over;
  pthread_mutex_unlock(&comeback->lock);
  return goes_on;
}

_Bool comeback_cut(struct session *session) {
  struct comeback *comeback = session->comeback;
  if (!comeback || guest_is_child()) return 0;
  pthread_mutex_lock(&comeback->lock);
  if (!comeback->over) want_another(session, comeback);
  const _Bool goes_on = !comeback->over;
  pthread_mutex_unlock(&comeback->lock);
  return goes_on;
}

// ---- the thread --------------------------------------------------------------------------------

// Both too large for a thread's stack.
static outboard_Hello hello;
static outboard_Answer answer;
static uint8_t message[WIRE_CONTROL_MAX];

// Says who comes back, and hears how many bytes the server has. 0, or an errno value; ECONNREFUSED:
// the session is not there any more.
static int introduce(struct comeback *comeback, int fd, struct tls *tls, uint64_t *received) {
  control_hello(&hello, &comeback->config);
  hello.resumes = 1;
  hello.has_resume = 1;
  hello.resume.session = comeback->number;
  hello.resume.secret.size = sizeof comeback->secret;
  memcpy(hello.resume.secret.bytes, comeback->secret, sizeof comeback->secret);
  hello.resume.epoch = ++comeback->epoch;
  hello.resume.received = comeback->received;
  const size_t size = control_write_hello(message, &hello);
  const int timeout = (int)comeback->config.connect_timeout_ms;
  int error = size ? dial_write(fd, tls, message, size, timeout) : EPROTO;
  uint8_t preface[WIRE_PREFACE_BYTES];
  uint32_t length;
  // The server answers once what it has received before is read, which may take as long as a call.
  if (!error) error = dial_read(fd, tls, preface, sizeof preface, (int)comeback->seconds * 1000);
  if (error) return error;
  if (!control_read_preface(connection_server(), preface, &length)) return ECONNREFUSED;
  error = dial_read(fd, tls, message, length, timeout);
  if (error) return error;
  if (control_read_answer(preface, message, length, &answer)) return ECONNREFUSED;
  if (answer.which_body == outboard_Answer_refusal_tag) {
    const outboard_Refusal *refusal = &answer.body.refusal;
    log_error("the server refused (%s): %s. %s", refusal->code, refusal->sentence, refusal->remedy);
    return ECONNREFUSED;
  }
  if (answer.which_body != outboard_Answer_resumed_tag) return ECONNREFUSED;
  *received = answer.body.resumed.received;
  if (kept_reaches(&comeback->kept, *received)) return 0;
  log_error("the server has %llu bytes of %llu that were sent, and the last %u are kept",
            (unsigned long long)*received, (unsigned long long)comeback->kept.sent, KEPT_BYTES);
  return ECONNREFUSED;
}

// Until there is a connection that the server has taken. Returns its socket, or -1, and what it has
// of TLS.
static int come_back(struct comeback *comeback, struct tls **tls, uint64_t *received) {
  const int64_t until = clock_ms() + (int64_t)comeback->seconds * 1000;
  long pause_ms = 20;
  while (!guest_is_lost() && !guest_is_child()) {
    const struct server_name *server;
    int fd = dial(&comeback->config, &server, tls);
    if (fd >= 0) {
      const int error = introduce(comeback, fd, *tls, received);
      if (!error) return fd;
      tls_close(*tls);
      close(fd);
      if (error == ECONNREFUSED) return -1;
    }
    if (clock_ms() >= until) return -1;
    const struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    if (pause_ms < 1000) pause_ms *= 2;
  }
  return -1;
}

// The connection was cut. True when there is another one.
static _Bool take_up(struct session *session, struct comeback *comeback) {
  // From here on nothing is received or sent, and counts stand. What was on its way may say that
  // the session has ended.
  answer_read_out(session);
  if (!guest_is_lost()) log_info("the connection is cut: connecting again");
  pthread_mutex_lock(&comeback->lock);
  while (comeback->sending && !comeback->parked)
    pthread_cond_wait(&comeback->changed, &comeback->lock);
  pthread_mutex_unlock(&comeback->lock);
  uint64_t received = 0;
  struct tls *tls = NULL;
  const int fd = come_back(comeback, &tls, &received);
  if (fd < 0 || connection_replace(session, fd, tls)) return 0;
  pthread_mutex_lock(&comeback->lock);
  comeback->broken = 0;
  pthread_mutex_unlock(&comeback->lock);
  answer_read_on(session);
  const int error = connection_send_kept(session, received);
  pthread_mutex_lock(&comeback->lock);
  if (error && !comeback->over) want_another(session, comeback);
  if (!comeback->broken) comeback->away = 0;
  pthread_cond_broadcast(&comeback->changed);
  pthread_mutex_unlock(&comeback->lock);
  log_info("the session goes on after a cut (%u)", comeback->epoch);
  return 1;
}

static void give_up(struct session *session, struct comeback *comeback) {
  pthread_mutex_lock(&comeback->lock);
  comeback->over = 1;
  pthread_mutex_unlock(&comeback->lock);
  answer_give_up(CUDA_ERROR_DEVICE_UNAVAILABLE,
                 "it was cut, and the session could not be taken up again");
  answer_read_on(session);
  pthread_mutex_lock(&comeback->lock);
  pthread_cond_broadcast(&comeback->changed);
  pthread_mutex_unlock(&comeback->lock);
}

// ---- the beginning and the end -----------------------------------------------------------------

// With the lock held. Until somebody says that something has changed, or the connection has ended:
// a program that calls nothing for a while does not find out.
static void wait_for_end(struct session *session, struct comeback *comeback) {
  // Without its eventfd, as in a program that closes all it does not know, the thread waits to be
  // told. What has its number then is not looked at.
  struct pollfd polled[2] = {{.fd = comeback->wake - 1, .events = POLLIN},
                             {.fd = connection_fd(session), .events = POLLRDHUP}};
  const int watched = comeback->over ? 1 : 2;
  const _Bool is_there = descriptor_is(comeback->wake - 1, comeback->wake_mark);
  pthread_mutex_unlock(&comeback->lock);
  const _Bool deaf =
      !is_there || poll(polled, (nfds_t)watched, -1) < 0 || polled[0].revents & ~POLLIN;
  eventfd_t count;
  if (polled[0].revents == POLLIN) eventfd_read(polled[0].fd, &count);
  pthread_mutex_lock(&comeback->lock);
  if (deaf) {
    if (!comeback->broken || comeback->over) pthread_cond_wait(&comeback->changed, &comeback->lock);
  } else if (!polled[0].revents && polled[1].revents && !comeback->broken && !comeback->over) {
    want_another(session, comeback);
  }
}

static void *watch(void *of) {
  struct session *session = of;
  struct comeback *comeback = &only;
  for (;;) {
    pthread_mutex_lock(&comeback->lock);
    while (!comeback->broken || comeback->over) wait_for_end(session, comeback);
    pthread_mutex_unlock(&comeback->lock);
    if (!take_up(session, comeback)) give_up(session, comeback);
  }
  return NULL;
}

static void say_goodbye(struct session *session) {
  // A child has the socket, and it is its parent's.
  if (!session->comeback || guest_is_child()) return;
  pthread_mutex_lock(&only.lock);
  only.over = 1;
  if (!only.sending && !only.away && !guest_is_lost() && connection_is_there(session)) {
    const struct wire_header goodbye = {.op = WIRE_Goodbye, .size = sizeof goodbye};
    connection_send_now(session, &goodbye, sizeof goodbye);
  }
  say_changed(&only);
  pthread_mutex_unlock(&only.lock);
}

void comeback_goodbye(struct session *session) {
  say_goodbye(session);
  session->comeback = NULL;
}

// The program ends. Threads of it may still be at work.
static void leave(void) { say_goodbye(sessions); }

CUresult comeback_offered(struct session *session, const struct config *config,
                          const outboard_Welcome *welcome) {
  struct comeback *comeback = &only;
  if (welcome->resume_secret.size != sizeof comeback->secret) return CUDA_SUCCESS;
  if (!comeback_possible(session, config)) return CUDA_SUCCESS;
  if (!comeback->kept.ring && !kept_begin(&comeback->kept)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!comeback->wake) {
    comeback->wake = 1 + descriptor_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    comeback->wake_mark = descriptor_mark_of(comeback->wake - 1);
  }
  if (!comeback->wake) return CUDA_ERROR_OPERATING_SYSTEM;
  // The program has closed it, and the thread cannot be told.
  if (!descriptor_is(comeback->wake - 1, comeback->wake_mark)) return CUDA_SUCCESS;
  pthread_mutex_lock(&comeback->lock);
  comeback->kept.sent = 0;
  comeback->received = 0;
  comeback->epoch = 0;
  comeback->away = comeback->broken = comeback->over = 0;
  comeback->number = welcome->session;
  comeback->seconds = welcome->resume_seconds;
  memcpy(comeback->secret, welcome->resume_secret.bytes, sizeof comeback->secret);
  // The server that has the session, and no other.
  comeback->config = *config;
  comeback->config.servers[0] = *connection_server();
  comeback->config.server_count = 1;
  say_changed(comeback);
  pthread_mutex_unlock(&comeback->lock);
  if (!comeback->started && (thread_start(watch, session) || atexit(leave)))
    return CUDA_ERROR_OPERATING_SYSTEM;
  comeback->started = 1;
  session->comeback = comeback;
  return CUDA_SUCCESS;
}
